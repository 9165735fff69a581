"""``tasc judge``: outputs of a bench, scored by a language model."""

from typing import TYPE_CHECKING, Any

from .._command import Command
from .._console import bounds_text, noted, say, table

if TYPE_CHECKING:
    from tasc.benchmark.judge.results import JudgePair, ModelScores


def show(result: dict[str, Any]) -> None:
    """Print a table of models, and a line for each pair of them."""
    from tasc.benchmark.judge.results import JudgeResults

    found = JudgeResults.model_validate(result)
    table(
        f"{found.results}: {found.complete} samples, scores from 1 to 4 by {found.judge.model}",
        ["model", "method", "mean", "sd", "1", "2", "3", "4", "same score in both orders"],
        [_line(model) for model in found.models],
        text_columns=2,
    )
    for pair in found.pairs:
        say(_pair_line(pair, found.complete))
    if found.by_position:
        means = ", ".join(f"{mean:.2f}" for mean in found.by_position)
        say(f"mean score by the position of an answer: {means}")
    left_out = len(found.samples) - found.complete
    if left_out:
        say(
            f"FAILED: {left_out} of {len(found.samples)} samples were left out: of {found.asked} "
            f"judgements {found.unparsed} held no scores, and {found.failed} requests failed"
        )


def _line(model: "ModelScores") -> list[str]:
    return [
        model.model,
        model.method,
        _figure(model.mean, ".2f"),
        _figure(model.sd, ".2f"),
        *(_figure(share, ".0%") for share in model.shares or (None,) * 4),
        _figure(model.same_in_both_orders, ".0%"),
    ]


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"


def _pair_line(pair: "JudgePair", samples: int) -> str:
    """Say how much higher a model's scores are than another's, and how sure that is."""
    figure = noted(f"{pair.difference:+z.2f}", bounds_text(pair.interval, "+z.2f"))
    return (
        f"{pair.model} against {pair.against}: {figure}; better in "
        f"{pair.better}, worse in {pair.worse}, equal in {pair.equal} of {samples} samples; both "
        f"orders agree in {pair.same_in_both_orders:.0%}"
    )


COMMAND = Command(
    "judge",
    help="Have a language model score the outputs of a bench, in two orders; writes judge.json.",
    show=show,
    leaves=(("judgements", "judge.json"),),
)
