"""``tasc index``: count a corpus once; benches and jobs map the file and share its memory."""

from typing import TYPE_CHECKING

from .._console import say

if TYPE_CHECKING:
    from tasc.decoding.drafters.ngram.building import IndexReport


def show(report: "IndexReport") -> None:
    """Print what was counted."""
    say(
        f"{report.tokens:,} tokens of {report.outputs:,} outputs: "
        f"{report.contexts:,} contexts, {report.bytes:,} bytes "
        f"({report.bytes_per_token:.1f} per token), counted in {report.build_seconds:.2f} s"
    )
