"""``budget.html``: what every budget brings and costs, self-contained and escaped."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from tasc.html import template
from tasc.svg import COLOURS, new_figure, to_svg


def render(result: dict[str, Any], source: str) -> str:
    """Return the page for the report of an augmentation, as in augmentation.json."""
    points = result["curve"]["points"]
    return template("tasc.vocab", "budget.html").render(
        result=result,
        source=source,
        points=points,
        knee=result["curve"]["knee"],
        # No user text in the figures.
        gain=Markup(_gain(points, result["curve"]["knee"])),
        cost=Markup(_cost(points, result["curve"]["knee"])),
        seen=Markup(_seen(points)),
    )


def _gain(points: Sequence[dict[str, Any]], knee: dict[str, Any]) -> str:
    """Steps an output against new tokens."""
    figure, axes = new_figure(3.2)
    budgets = [point["budget"] for point in points]
    for name, label, colour in (
        ("train_steps", "training outputs", COLOURS[0]),
        ("held_out_steps", "held-out outputs", COLOURS[1]),
    ):
        if points[0][name] is not None:
            axes.plot(budgets, [p[name] for p in points], color=colour, label=label)
    _mark(axes, knee)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("decoding steps per output")
    return _finished(figure, axes)


def _cost(points: Sequence[dict[str, Any]], knee: dict[str, Any]) -> str:
    """What is minimized, and its parts, against no new tokens."""
    figure, axes = new_figure(3.2)
    budgets = [point["budget"] for point in points]
    steps = "train_steps" if points[0]["held_out_steps"] is None else "held_out_steps"
    parts = [
        ("steps", [p[steps] / points[0][steps] for p in points], COLOURS[0]),
        ("cost", [p["cost"] for p in points], COLOURS[1]),
    ]
    if knee["parameters"] is not None:
        parts.append(("time of a step", [1 + p["slower"] for p in points], COLOURS[5]))
    for label, values, colour in parts:
        axes.plot(budgets, values, color=colour, label=label)
    _mark(axes, knee)
    axes.set_ylim(0, max(1.15, *(1.05 * max(values) for _, values, _ in parts)))
    axes.set_ylabel("against no new tokens")
    return _finished(figure, axes)


def _seen(points: Sequence[dict[str, Any]]) -> str:
    """How often new tokens stand in the training outputs."""
    figure, axes = new_figure(3.2)
    shown = [point for point in points if point["budget"]]
    for name, label, colour in (
        ("median", "median", COLOURS[0]),
        ("tenth", "10th percentile", COLOURS[2]),
        ("least", "rarest", COLOURS[1]),
    ):
        values = [point["seen"][name] for point in shown]
        axes.plot([p["budget"] for p in shown], values, color=colour, label=label)
    axes.set_yscale("log")
    axes.set_ylabel("occurrences in training")
    return _finished(figure, axes)


def _mark(axes: Any, knee: dict[str, Any]) -> None:  # noqa: ANN401 - matplotlib's axes
    axes.axvline(knee["budget"], color="#333333", linewidth=1, linestyle=":")
    text = f" knee: {knee['budget']:,}"
    axes.text(knee["budget"], 0.02, text, transform=axes.get_xaxis_transform(), fontsize=9)


def _finished(figure: Any, axes: Any) -> str:  # noqa: ANN401 - matplotlib's
    axes.set_xlim(left=0)
    axes.set_xlabel("new tokens")
    # Above the plot, at its left: no line runs through it, and a narrow screen shows it.
    axes.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return to_svg(figure)
