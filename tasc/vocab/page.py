"""``budget.html``: what every budget brings and costs, self-contained and escaped."""

from collections.abc import Sequence
from typing import Any

from tasc.report.charts import Chart, chart
from tasc.report.html import template

Points = Sequence[dict[str, Any]]


def render(result: dict[str, Any], source: str) -> str:
    """Return the page for the report of an augmentation, as in augmentation.json."""
    points, recommended_size = result["curve"]["points"], result["curve"]["recommended_size"]
    marks = {recommended_size["budget"]: f"recommended: {recommended_size['budget']:,}"}
    held_out = points[0]["held_out_steps"] is not None
    return template("tasc.vocab", "budget.html").render(
        result=result,
        source=source,
        points=points,
        recommended_size=recommended_size,
        gain=_gain(points, marks, held_out=held_out),
        cost=_cost(points, marks, "held_out_steps" if held_out else "train_steps"),
        seen=_seen(points),
    )


def _gain(points: Points, marks: dict[float, str], *, held_out: bool) -> Chart:
    lines = {"training outputs": [(p["budget"], p["train_steps"]) for p in points]}
    if held_out:
        lines["held-out outputs"] = [(p["budget"], p["held_out_steps"]) for p in points]
    return chart("Gain", lines, "new tokens", "decoding steps per output", marks=marks)


def _cost(points: Points, marks: dict[float, str], steps: str) -> Chart:
    """What is minimized, and its parts."""
    lines = {
        "steps": [(p["budget"], p[steps] / points[0][steps]) for p in points],
        "cost": [(p["budget"], p["cost"]) for p in points],
    }
    if points[0]["parameters"] is not None:
        lines["time of a step"] = [(p["budget"], 1 + p["slower"]) for p in points]
    return chart("Cost", lines, "new tokens", "against no new tokens", marks=marks)


def _seen(points: Points) -> Chart:
    names = {"median": "median", "tenth": "10th percentile", "least": "rarest"}
    lines = {
        label: [(p["budget"], p["seen"][name]) for p in points if p["budget"]]
        for name, label in names.items()
    }
    title = "How often new tokens are seen"
    return chart(title, lines, "new tokens", "occurrences in training", log="y")
