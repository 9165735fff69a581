"""Figures as inline SVG: no script, no file beside the page."""

import io
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#2f6690", "#d1495b", "#66a182", "#edae49", "#5c5470", "#8d96a3")


def new_figure(height: float) -> "tuple[Figure, Any]":
    """Return a figure as wide as a page, and its axes."""
    # It tells on stderr that its own cache of fonts cannot be written, which concerns nobody here.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def to_svg(figure: "Figure") -> str:
    """Return the figure as an ``<svg>`` element; equal figures give equal text."""
    import matplotlib as mpl

    buffer = io.StringIO()
    # Text as paths looks alike everywhere; a fixed salt makes equal figures equal files.
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "tasc"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
