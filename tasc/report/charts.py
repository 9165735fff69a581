"""Line charts as inline SVG: drawn by matplotlib, in the page's colours, light or dark.

What others named is in the legend, which ``templates/chart.html`` writes and escapes.
"""

import io
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[Sequence[float]]

COLOURS = tuple(f"var(--c{i})" for i in range(6))  # of page.css
STROKES = ("solid", "dashed", "dotted")  # for matplotlib and CSS alike: where colours are used up
_DRAWN = tuple(f"#c0c0{i:02x}" for i in range(6))  # what stands for them while matplotlib draws
_SOFT, _LINE = "#c0c0fd", "#c0c0fe"
_OF_PAGE = {**dict(zip(_DRAWN, COLOURS, strict=True)), _SOFT: "var(--soft)", _LINE: "var(--line)"}
_WIDTH, _HEIGHT = 4.2, 2.7  # inches; as wide as a telephone, so letters stay readable there
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tasc",  # equal figures are equal files
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _SOFT),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), _LINE),
}


@dataclass(frozen=True)
class Chart:
    """A drawn chart. ``names`` contains the names of its lines, in the order of their colours."""

    title: str
    y_label: str
    names: tuple[str, ...]
    svg: Markup

    @property
    def key(self) -> list[tuple[str, str, str]]:
        """Name, colour and stroke of each line: no two are drawn alike up to eighteen."""
        drawn = zip(self.names, cycle(product(STROKES, COLOURS)), strict=False)
        return [(name, colour, stroke) for name, (stroke, colour) in drawn]


def chart(
    title: str,
    lines: Mapping[str, Points],
    x_label: str,
    y_label: str,
    *,
    log: str = "",
    highest: float | None = None,
    marks: Mapping[float, str] = {},
) -> Chart:
    """Draw lines of (x, y); axes in ``log``, as "x", are logarithmic, others begin at 0.

    ``highest`` is the top of the y axis. ``marks`` name positions on the x axis.
    """
    # It tells on stderr that its own cache of fonts cannot be written, which concerns nobody here.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.rcsetup import cycler
    from matplotlib.ticker import MaxNLocator

    styles = cycler(linestyle=STROKES) * cycler(color=_DRAWN)
    drawn = {name: points for name, points in lines.items() if len(points)}
    with mpl.rc_context(_STYLE | {"axes.prop_cycle": styles}):
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained", facecolor="none")
        axes = figure.subplots()
        for points in drawn.values():
            marker = "o" if len(points) == 1 else ""  # a line of one point is nothing to see
            axes.plot(*zip(*points, strict=True), marker=marker, clip_on=not marker)
        for at in marks:
            axes.axvline(at, color=_SOFT, linewidth=1, linestyle=":")
        _lay_out(axes, log, highest)
        if "x" not in log and all(x == int(x) for points in drawn.values() for x, _ in points):
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=(1, 2, 5, 10)))
        _name_marks(axes, marks)
        axes.set_xlabel(x_label)
        return Chart(title, y_label, tuple(drawn), _svg(figure))


def _name_marks(axes: "Axes", marks: Mapping[float, str]) -> None:
    """Write each mark's name beside it, on the side that has room."""
    to_share = axes.transData + axes.transAxes.inverted()
    for at, text in marks.items():
        late = to_share.transform((at, 0.0))[0] > 0.5
        side = "right" if late else "left"
        room = f"{text} " if late else f" {text}"
        axes.text(at, 0.02, room, transform=axes.get_xaxis_transform(), ha=side)


def _lay_out(axes: "Axes", log: str, highest: float | None) -> None:
    axes.set_facecolor("none")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    if "x" in log:
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    if "y" in log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, highest)


def _svg(figure: Any) -> Markup:  # noqa: ANN401 - matplotlib's figure
    """Return the figure as an ``<svg>`` element that loads nothing and follows the page's style."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>| xmlns(:xlink)?=\"[^\"]*\"", "", text, flags=re.S)
    text = re.sub(r' id="[a-z0-9.]+_\d+"', "", text)  # of groups: those of two charts are the same
    for drawn, of_page in _OF_PAGE.items():
        text = text.replace(drawn, of_page)
    return Markup(text[text.index("<svg") :].replace("xlink:href", "href"))
