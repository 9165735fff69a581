"""``tasc augment``: add the task's n-grams to a tokenizer."""

from typing import TYPE_CHECKING

from .._console import say, table

if TYPE_CHECKING:
    from tasc.vocab.report import AugmentReport
    from tasc.vocab.search.budget import Curve


def show(report: "AugmentReport") -> None:
    """Print what the saved tokenizer reaches beside what the search predicted."""
    sides = [("train", report.train), ("held out", report.held_out)]
    table(
        f"{report.added:,} new tokens ({report.export}), vocabulary {report.size:,}",
        ["outputs", "tokens before", "predicted", "reached", "fewer tokens", "bytes/token"],
        [
            [
                name,
                f"{side.tokens_per_output['before']:.2f}",
                f"{side.tokens_per_output['predicted']:.2f}",
                f"{side.tokens_per_output['reached']:.2f}",
                f"{side.ratio:.2f}×",
                " → ".join(f"{side.bytes_per_token[k]:.2f}" for k in ("before", "reached")),
            ]
            for name, side in sides
            if side
        ],
    )
    if report.shortfall:
        say(report.shortfall)
    say("Token counts exclude the end token; each token, and the end token, takes one step.")
    excluded = ", ".join(f"{n} {why}" for why, n in report.excluded.items() if n) or "none"
    say(
        f"H2 {report.h2['before']:.2f} → {report.h2['after']:.2f} bits; rejected by PCS: "
        f"{report.rejected}; excluded: {excluded}; unused: {report.unused}"
    )
    show_use(report)
    if report.budget == "auto":
        show_recommended_size(report.curve)


def show_use(report: "AugmentReport") -> None:
    """Print how often new tokens are seen and split words."""
    seen, train = report.seen, report.train
    say(
        f"new tokens in the training outputs: the rarest {seen.least:,} times, a tenth of them "
        f"{seen.tenth:,.0f} or less, half {seen.median:,.0f} or less"
    )
    split = train.splits_words / max(train.new_token_uses, 1)
    if report.export == "added":
        say(
            f"words split by new tokens: {train.splits_words:,} of {train.new_token_uses:,} "
            f"uses ({split:.1%}); --export pretoken splits none"
        )


def show_recommended_size(curve: "Curve") -> None:
    """Print the budget that was chosen beside its neighbours."""
    recommended = curve.recommended_size
    around = [p for p in curve.points if p.budget in _around(curve)]
    table(
        f"Recommended size: {recommended.budget:,} (overfit penalty {curve.price:g})",
        ["new tokens", "steps/output", "held out", "seen min", "p10", "median", "risk", "cost"],
        [
            [
                f"{p.budget:,}" + (" ←" if p.budget == recommended.budget else ""),
                f"{p.train_steps:.2f}",
                "-" if p.held_out_steps is None else f"{p.held_out_steps:.2f}",
                f"{p.seen.least:,}",
                f"{p.seen.tenth:,.0f}",
                f"{p.seen.median:,.0f}",
                f"{p.risk:.1%}",
                f"{p.cost:.3f}",
            ]
            for p in around
        ],
    )
    say(
        "risk: outputs that a rarely seen token may spoil, predicted; cost: steps, their time, and "
        "the risk at its price, against no new tokens"
    )


def _around(curve: "Curve") -> set[int]:
    """No tokens, the recommended size, and its halves and doubles, as far as the curve has them."""
    budgets = [p.budget for p in curve.points]
    recommended = curve.recommended_size.budget
    wanted = (0, recommended / 4, recommended / 2, recommended, recommended * 2, recommended * 4)
    return {min(budgets, key=lambda budget: abs(budget - want)) for want in wanted}
