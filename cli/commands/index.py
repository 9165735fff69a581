"""``tasc index``: count a corpus once; benches and jobs map the file and share its memory."""

from typing import Any

from .._command import Command
from .._console import say


def show(result: dict[str, Any]) -> None:
    """Print what was counted."""
    say(
        f"{result['tokens']:,} tokens of {result['outputs']:,} outputs: "
        f"{result['contexts']:,} contexts, {result['bytes']:,} bytes "
        f"({result['bytes_per_token']:.1f} a token), counted in {result['build_seconds']:.2f} s"
    )


COMMAND = Command(
    "index",
    help="Save the n-gram index of a source's outputs for bench --index.",
    show=show,
    leaves=(("index", ""),),
)
