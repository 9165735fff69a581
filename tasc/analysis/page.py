"""``analysis.html``: an analysis for a reader, self-contained and escaped."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasc.html import template

Points = Sequence[Sequence[float]]

# Of a chart, in its own units; it is drawn as wide as a telephone, so letters stay readable there.
WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 42, 12, 10, 36


@dataclass(frozen=True)
class Chart:
    """Lines over two axes, ready to be drawn: ticks and marks (place, text), lines (name, points).

    A mark is a vertical line.
    """

    title: str
    x_label: str
    y_label: str
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    lines: tuple[tuple[str, str], ...]
    marks: tuple[tuple[float, str], ...] = ()


def render(result: dict[str, Any]) -> str:
    """Return the page of an analysis, given as in analysis.json."""
    places = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "bottom": BOTTOM, "top": TOP}
    drafting, knee = result.get("drafting"), result.get("knee")
    charts = _charts(result, knee) + _drafting(drafting)
    page = template("tasc.analysis", "analysis.html")
    return page.render(r=result, d=drafting, knee=knee, charts=charts, **places)


def _charts(result: dict[str, Any], knee: dict[str, Any] | None) -> list[Chart]:
    sides = {"inputs": result["input"], "outputs": result["output"]}
    charts = [
        chart(
            "Coverage of word bigrams",
            {name: side["ngrams"][1]["curve"] for name, side in sides.items()},
            "most frequent bigrams",
            "share of occurrences",
            log=True,
            highest=1,
        ),
        chart(
            "Entropy by length",
            {
                name: [(row["n"], row["entropy_bits"]) for row in side["ngrams"]]
                for name, side in sides.items()
            },
            "words in an n-gram",
            "bits",
        ),
    ]
    tokens = result["tokens"]
    if tokens:
        before, after = tokens["frequency"]
        most = tokens["budgets"][-1]["added"]
        charts += [
            chart(
                "Output tokens by frequency",
                {"without": before, f"with {most:,} added": after},
                "most frequent tokens",
                "share of occurrences",
                log=True,
                highest=1,
            ),
            chart(
                "What a budget brings",
                {
                    "fewer steps, predicted": [
                        (p["added"], p["step_ratio"]) for p in tokens["budgets"]
                    ]
                },
                "added tokens",
                "× fewer decoding steps",
                marks={knee["budget"]: f"knee: {knee['budget']:,}"} if knee else {},
            ),
        ]
    return charts


def _drafting(drafting: dict[str, Any] | None) -> list[Chart]:
    """T(k) / T(1) of the model, where it was measured."""
    if not drafting or not drafting["cost"]:
        return []
    sizes, seconds = drafting["cost"]["sizes"], drafting["cost"]["seconds"]
    return [
        chart(
            "What a forward costs here",
            {"T(k) / T(1)": [(k, t / seconds[0]) for k, t in zip(sizes, seconds, strict=True)]},
            "tokens of a forward: draft nodes and one",
            "× the time of one token",
        )
    ]


def chart(
    title: str,
    lines: dict[str, Points],
    x_label: str,
    y_label: str,
    *,
    log: bool = False,
    highest: float | None = None,
    marks: dict[float, str] | None = None,
) -> Chart:
    """Lay out lines of (x, y); with ``log`` x is on a logarithmic scale and at least 1.

    ``marks`` name places on the x axis.
    """
    drawn = {name: points for name, points in lines.items() if len(points)}
    every = [point for points in drawn.values() for point in points] or [(1.0, 1.0)]
    top = highest or max(y for _, y in every) or 1.0
    last = max(x for x, _ in every) or 1.0
    first = 1.0 if log else min(0.0, *(x for x, _ in every))

    def across(x: float) -> float:
        share = (x - first) / ((last - first) or 1)
        if log:
            share = math.log(max(x, 1)) / (math.log(last) or 1)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        return HEIGHT - BOTTOM - y / top * (HEIGHT - BOTTOM - TOP)

    return Chart(
        title,
        x_label,
        y_label,
        tuple((across(x), _short(x)) for x in (_decades(last) if log else _steps(last))),
        tuple((down(y), _short(y)) for y in _steps(top)),
        tuple(
            (name, " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points))
            for name, points in drawn.items()
        ),
        tuple((across(x), text) for x, text in (marks or {}).items()),
    )


def _decades(last: float) -> list[float]:
    powers = range(int(math.log10(last)) + 1)
    return [10.0**power for power in powers][:: 2 if len(powers) > 5 else 1]


def _steps(last: float) -> list[float]:
    """Up to five round numbers from 0 on."""
    unit = 10 ** math.floor(math.log10(last / 2))
    step = next(unit * m for m in (1, 2, 5, 10) if last / (unit * m) <= 5)
    return [step * i for i in range(int(last / step + 1e-9) + 1)]


def _short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.4g}"
