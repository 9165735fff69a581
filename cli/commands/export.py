"""``tasc export``: a folder that an engine serves as it stands."""

from typing import TYPE_CHECKING

from .._console import say

if TYPE_CHECKING:
    from tasc.serving.export import ExportReport


def show(report: "ExportReport") -> None:
    """Print what was exported, how it is started, and what the engine cannot do."""
    index, head = report.index, report.head
    drafts = "no drafts: give --index or --data"
    if index:
        drafts = f"an index of {index.tokens:,} tokens, {index.contexts:,} contexts"
    elif head:
        drafts = "a draft head"
    say(f"{report.label}: {report.name}, {report.vocabulary:,} tokens; {drafts}")
    say(f"  limit: {report.limits}")
    for note in report.notes:
        say(f"  {note}")
    if report.command:
        say(f"Start it with tasc serve, or inside of the folder: {report.command}")
