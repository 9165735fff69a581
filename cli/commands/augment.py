"""``tasc augment``: add n-grams of the outputs to a tokenizer."""

from tasc.vocab.report import AugmentReport, TrimReport
from tasc.vocab.search.budget import Curve

from .._console import say, table_of


def show(report: AugmentReport) -> None:
    """Print the measured and predicted effect of the new tokens."""
    if report.trim:
        _show_trim(report.trim)
    if not report.budget:
        return
    _show_lengths(report)
    _show_new_tokens(report)
    if report.budget == "auto":
        _show_recommended_size(report.curve)


def _show_new_tokens(report: AugmentReport) -> None:
    excluded = ", ".join(f"{n} {why}" for why, n in report.excluded.items() if n) or "none"
    say(
        f"Rényi entropy H2: {report.h2['before']:.2f} → {report.h2['after']:.2f} bits; candidates "
        f"rejected by the prefix collision score: {report.rejected}; excluded: {excluded}; "
        f"new tokens that no output uses: {report.unused}"
    )
    seen = report.seen
    say(
        f"Occurrences per new token in the training outputs: minimum {seen.least:,}, 10th "
        f"percentile {seen.tenth:,.0f}, median {seen.median:,.0f}"
    )


def _show_lengths(report: AugmentReport) -> None:
    sides = [("train", report.train), ("held out", report.held_out)]
    table_of(
        f"{report.added:,} new tokens ({report.export}), vocabulary {report.size:,}",
        [(name, side, side.tokens_per_output) for name, side in sides if side],
        {
            "split": lambda row: row[0],
            "tokens/output": lambda row: f"{row[2]['before']:.2f}",
            "predicted": lambda row: f"{row[2]['predicted']:.2f}",
            "measured": lambda row: f"{row[2]['reached']:.2f}",
            "token ratio": lambda row: f"{row[1].ratio:.2f}×",
            "bytes/token": lambda row: "{before:.2f} → {reached:.2f}".format_map(
                row[1].bytes_per_token
            ),
        },
    )
    if report.shortfall:
        say(report.shortfall)
    say("Token counts exclude the end token. Token ratio: tokens before, divided by tokens after.")


def _show_trim(trim: TrimReport) -> None:
    say(
        f"Kept {trim.kept:,} of {trim.before:,} tokens, {trim.used:,} of which the training "
        f"prompts and outputs use; texts with other tokens than before: {trim.changed:,}."
    )
    sides = [trim.bytes_per_token[side] for side in ("before", "after")]
    say(f"Bytes per token of other texts (Python docstrings): {sides[0]:.2f} → {sides[1]:.2f}.")


def _show_recommended_size(curve: Curve) -> None:
    recommended = curve.recommended_size.budget
    table_of(
        f"Recommended size: {recommended:,} (overfit penalty {curve.price:g})",
        [p for p in curve.points if p.budget in _around(curve)],
        {
            "new tokens": lambda p: f"{p.budget:,}" + (" ←" if p.budget == recommended else ""),
            "steps/output": lambda p: f"{p.train_steps:.2f}",
            "held out": lambda p: "-" if p.held_out_steps is None else f"{p.held_out_steps:.2f}",
            "seen min": lambda p: f"{p.seen.least:,}",
            "p10": lambda p: f"{p.seen.tenth:,.0f}",
            "median": lambda p: f"{p.seen.median:,.0f}",
            "risk": lambda p: f"{p.risk:.1%}",
            "cost": lambda p: f"{p.cost:.3f}",
        },
    )
    say(
        "Risk: predicted share of outputs that a rarely seen token may spoil. Cost: decoding time "
        "plus risk × penalty, relative to no new tokens."
    )
    if not recommended:
        say("No new token is predicted to pay. Measure with tasc bench, or use TASC-spec alone.")


def _around(curve: Curve) -> set[int]:
    """Return 0, the recommended size, and the sizes next to its halves and doubles."""
    budgets, recommended = [p.budget for p in curve.points], curve.recommended_size.budget
    wanted = (0, recommended / 4, recommended / 2, recommended, recommended * 2, recommended * 4)
    return {min(budgets, key=lambda budget: abs(budget - want)) for want in wanted}
