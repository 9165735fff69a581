"""Line charts as inline SVG: laid out here, drawn by the macro of ``templates/chart.html``.

No drawing library: a page with four charts is made in milliseconds, is small, follows the reader's
light or dark scheme, and may show any name, which the template escapes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Points = Sequence[Sequence[float]]

COLOURS = tuple(f"var(--c{i})" for i in range(6))  # of page.css
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


def chart(
    title: str,
    lines: Mapping[str, Points],
    x_label: str,
    y_label: str,
    *,
    log: str = "",
    highest: float | None = None,
    marks: Mapping[float, str] | None = None,
) -> Chart:
    """Lay out lines of (x, y); axes in ``log``, as "x", are logarithmic and begin at 1.

    ``marks`` name places on the x axis.
    """
    drawn = {name: points for name, points in lines.items() if len(points)}
    every = [point for points in drawn.values() for point in points] or [(1.0, 1.0)]
    top = highest or max(y for _, y in every) or 1.0
    last = max(x for x, _ in every) or 1.0
    first = min(0.0, *(x for x, _ in every))

    def across(x: float) -> float:
        return LEFT + _share(x, first, last, log="x" in log) * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        return HEIGHT - BOTTOM - _share(y, 0, top, log="y" in log) * (HEIGHT - BOTTOM - TOP)

    return Chart(
        title,
        x_label,
        y_label,
        tuple((across(x), _short(x)) for x in _ticks(last, log="x" in log)),
        tuple((down(y), _short(y)) for y in _ticks(top, log="y" in log)),
        tuple(
            (name, " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points))
            for name, points in drawn.items()
        ),
        tuple((across(x), text) for x, text in (marks or {}).items()),
    )


def _share(value: float, first: float, last: float, *, log: bool) -> float:
    """Return where a value stands between the ends of its axis, from 0 to 1."""
    if log:
        return math.log(max(value, 1)) / (math.log(last) or 1)
    return (value - first) / ((last - first) or 1)


def _ticks(last: float, *, log: bool) -> list[float]:
    """Return powers of ten, or up to five round numbers from 0 on."""
    if log:
        powers = range(int(math.log10(last)) + 1)
        return [10.0**power for power in powers][:: 2 if len(powers) > 5 else 1]
    unit = 10 ** math.floor(math.log10(last / 2))
    step = next(unit * m for m in (1, 2, 5, 10) if last / (unit * m) <= 5)
    return [step * i for i in range(int(last / step + 1e-9) + 1)]


def _short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.4g}"
