"""Render ``budget.html``: benefit and cost by number of new tokens, self-contained and escaped."""

from collections.abc import Sequence

from tasc.report.charts import Chart, chart
from tasc.report.html import template
from tasc.vocab.report import AugmentReport
from tasc.vocab.search.budget import Point

Points = Sequence[Point]


def render(result: AugmentReport, source: str) -> str:
    """Return the page for the report of an augmentation."""
    points, recommended_size = result.curve.points, result.curve.recommended_size
    marks: dict[float, str] = {recommended_size.budget: f"recommended: {recommended_size.budget:,}"}
    return template("tasc.vocab", "budget.html").render(
        result=result,
        source=source,
        points=points,
        recommended_size=recommended_size,
        gain=_gain(points, marks),
        cost=_cost(points, marks),
        seen=_seen(points),
    )


def _gain(points: Points, marks: dict[float, str]) -> Chart:
    lines = {
        "training outputs": [(p.budget, p.train_steps) for p in points],
        "held-out outputs": [
            (p.budget, p.held_out_steps) for p in points if p.held_out_steps is not None
        ],
    }
    return chart("Gain", lines, "new tokens", "decoding steps per output", marks=marks)


def _cost(points: Points, marks: dict[float, str]) -> Chart:
    """Draw the cost that is minimised, and its parts."""
    steps = [p.train_steps if p.held_out_steps is None else p.held_out_steps for p in points]
    lines = {
        "steps": [(p.budget, n / steps[0]) for p, n in zip(points, steps, strict=True)],
        "cost": [(p.budget, p.cost) for p in points],
    }
    if points[0].parameters is not None:
        lines["time of a step"] = [(p.budget, 1 + p.slower) for p in points]
    return chart("Cost", lines, "new tokens", "against no new tokens", marks=marks)


def _seen(points: Points) -> Chart:
    names = {"median": "median", "tenth": "10th percentile", "least": "rarest"}
    lines = {
        label: [(p.budget, getattr(p.seen, name)) for p in points if p.budget]
        for name, label in names.items()
    }
    title = "How often new tokens are seen"
    return chart(title, lines, "new tokens", "occurrences in training", log="y")
