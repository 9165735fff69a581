"""``tasc vocab``: compare two vocabularies and recommend a drafting algorithm."""

from collections.abc import Callable

from tasc.benchmark.vocabularies import Comparison
from tasc.vocab.pairing import Side

from .._console import say, table_of

_COLUMNS: dict[str, Callable[[tuple[str, Side]], str]] = {
    "": lambda side: side[0],
    "tokens": lambda side: f"{side[1].size:,}",
    "strings": lambda side: f"{side[1].strings:,}",
    "longest": lambda side: f"{side[1].longest}",
    "mean bytes": lambda side: f"{side[1].mean_bytes:.2f}",
    "texts unchanged": lambda side: f"{side[1].injective}/{side[1].tested}",
}


def show(report: Comparison) -> None:
    """Print both vocabularies, their shared tokens, and the recommendation."""
    sides = [("target", report.target), ("drafter", report.draft)]
    table_of(f"{report.task.samples} texts of {report.task.source}", sides, _COLUMNS)
    for name, side in sides:
        if side.lost is not None:
            say(f"The {name} does not restore {side.lost[:60]!r} after encoding.")
    _show_shared(report)
    if report.expected_acceptance:
        figures = ", ".join(f"{k} {v:.3f}" for k, v in report.expected_acceptance.items())
        say(f"Expected acceptance at temperature {report.temperature:g}: {figures}")
    say(f"Recommended: {report.algorithm} ({report.reason})")


def _show_shared(r: Comparison) -> None:
    say(f"Shared: {r.shared:,} strings, {r.share:.1%} of the target's tokens")
    say(
        f"Shared in these texts: {r.used_shared:,} of {r.used:,} distinct target tokens, "
        f"{r.shared_by_occurrence:.1%} of their occurrences; "
        f"{r.draft_tokens_per_target_token:.2f} draft tokens per target token"
    )
    say(
        f"Segmentations of a target token into draft tokens: median {r.segmentations_median:,.0f}, "
        f"maximum {r.segmentations_max:,}; none for {r.unreachable} of {r.segmented} tokens"
    )
    say(
        f"Draft forwards for all segmentations of a token: median {r.forwards:,.0f} "
        "(slrs follows only the likely ones)"
    )
