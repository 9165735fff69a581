"""``tasc export``: a folder that an engine serves as it stands."""

from typing import Any

from ..._command import Command
from ..._console import say


def show(result: dict[str, Any]) -> None:
    """Print what was exported, how it is started, and what the engine cannot do."""
    index, head = result["index"], result["head"]
    drafts = "no drafts: give --index or --data"
    if index:
        drafts = f"an index of {index['tokens']:,} tokens, {index['contexts']:,} contexts"
    elif head:
        drafts = "a draft head"
    say(f"{result['label']}: {result['name']}, {result['vocabulary']:,} tokens; {drafts}")
    say(f"  limit: {result['limits']}")
    for note in result["notes"]:
        say(f"  {note}")
    if result["command"]:
        say(f"Start it with tasc serve, or inside of the folder: {result['command']}")


COMMAND = Command(
    "export",
    help="Write one folder that an engine serves: model, tokenizer, what it drafts from, README.",
    show=show,
    leaves=(("how to use it", "README.md"),),
)
