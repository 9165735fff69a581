"""``tasc vocab``: can this model draft for that one, and by which algorithm?"""

from typing import TYPE_CHECKING

from .._console import say, table

if TYPE_CHECKING:
    from tasc.benchmark.vocabularies import Comparison


def show(report: "Comparison") -> None:
    """Print both sides, what they share, and the recommendation."""
    sides = [("target", report.target), ("drafter", report.draft)]
    table(
        f"{report.task.texts} texts of {report.task.source}",
        ["", "tokens", "strings", "longest", "mean bytes", "texts that come back"],
        [
            [
                name,
                f"{side.size:,}",
                f"{side.strings:,}",
                f"{side.longest}",
                f"{side.mean_bytes:.2f}",
                f"{side.injective}/{side.tested}",
            ]
            for name, side in sides
        ],
    )
    for name, side in sides:
        if side.lost is not None:
            say(f"{name} does not give back {side.lost[:60]!r}")
    r = report
    say(f"in both: {r.shared:,} strings, {r.share:.1%} of the target's tokens")
    say(
        f"in these texts: {r.used_shared:,} of {r.used:,} target tokens, "
        f"{r.shared_by_occurrence:.1%} by occurrence; "
        f"{r.draft_tokens_per_target_token:.2f} draft tokens each"
    )
    say(
        f"segmentations of a target token by the drafter: median {r.segmentations_median:,.0f}, "
        f"at most {r.segmentations_max:,}; none for {r.unreachable} of {r.segmented}"
    )
    say(
        f"draft forwards for all segmentations of a token: median {r.forwards:,.0f} "
        "(slrs follows the likely ones)"
    )
    if r.expected_acceptance:
        figures = ", ".join(f"{k} {v:.3f}" for k, v in r.expected_acceptance.items())
        say(f"expected acceptance at temperature {r.temperature:g}: {figures}")
    best = r.recommended
    say(f"recommended: {best.algorithm} ({best.reason})")
