"""``tasc index``: save the n-gram counts of the outputs."""

from tasc.decoding.drafters.ngram.building import IndexReport

from .._console import say


def show(report: IndexReport) -> None:
    """Print the size of the index."""
    say(
        f"{report.tokens:,} tokens of {report.outputs:,} outputs: "
        f"{report.contexts:,} contexts, {report.bytes:,} bytes "
        f"({report.bytes_per_token:.1f} per token), counted in {report.build_seconds:.2f} s"
    )
