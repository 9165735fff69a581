"""``report.html``: the figures of a bench for a reader, self-contained and escaped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasc.benchmark.pages.samples import as_csv as as_csv
from tasc.benchmark.pages.samples import sample_views, sources_shown
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.comparisons import CellComparison
from tasc.benchmark.results.warnings import warnings
from tasc.report.charts import COLOURS, Chart, chart
from tasc.report.html import template

_HEADLINES = 4  # more cards are no headline


def render(results: BenchResults) -> str:
    """Return the page."""
    views = sample_views(results)
    return template("tasc.benchmark", "report.html").render(
        results=results,
        rows=results.cells,
        headlines=headlines(results),
        warnings=warnings(results),
        views=views,
        sources=sources_shown(views),
        metrics=results.metrics,
        latency=latency(results.cells),
        acceptance=acceptance(results.cells),
        bars=where_time_goes(results.cells),
    )


@dataclass(frozen=True)
class Headline:
    """A cell against the first one, as the page begins."""

    compared: CellComparison  # speeds and steps
    cell: Cell  # whose they are
    fastest_of: int  # how many methods of its model it is the fastest of; 1 where all are shown
    # Of another model than the first: a metric's label, and both values.
    quality: tuple[str, float, float] | None
    # Whether it is half that of the first model or less, beyond chance. How fast such a model is
    # says nothing.
    lost: bool

    @property
    def open(self) -> bool:
        """Whether its speed is not told apart from the first cell's."""
        low, high = self.compared.speedup_interval or (1.0, 1.0)
        return low <= 1 <= high


def headlines(results: BenchResults) -> list[Headline]:
    """Return what the page begins with: cells against the first.

    Of more than ``_HEADLINES`` each model's fastest, and one of each model that lost its quality.
    """
    first = results.cells[0]
    cells = {(cell.model, cell.method): cell for cell in results.cells}
    of_model: dict[str, list[CellComparison]] = {}
    for one in results.comparisons:
        if (one.against.model, one.against.method) == (first.model, first.method):
            of_model.setdefault(one.model, []).append(one)
    whole = sum(map(len, of_model.values())) <= _HEADLINES
    shown = []
    for model, compared in of_model.items():
        lost = _lost(model, results)
        best = max(compared, key=lambda one: one.speedup)
        for one in compared if whole and not lost else [best]:
            cell = cells[one.model, one.method]
            quality = lost or _quality(cell, results)
            among = 1 if whole else len(compared)
            shown.append(Headline(one, cell, among, quality, lost=lost is not None))
    return shown


def _quality(cell: Cell, results: BenchResults) -> tuple[str, float, float] | None:
    """Return the first metric of another model than the first, and both values."""
    first, (name, metric) = results.cells[0], next(iter(results.metrics.items()))
    if cell.model == first.model:
        return None
    return metric.label, first.quality[name], cell.quality[name]


def _lost(model: str, results: BenchResults) -> tuple[str, float, float] | None:
    """Return the first metric of which a model lost half or more, and both values."""
    first = results.cells[0]
    own = next(cell for cell in results.cells if cell.model == model)
    for pair in results.pairs:
        if (pair.model, pair.against) != (model, first.model):
            continue
        for name, seen in pair.quality.items():
            before, after = first.quality[name], own.quality[name]
            if seen.interval and seen.interval[1] < 0 and after <= before / 2:
                return results.metrics[name].label, before, after
    return None


def latency(rows: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a bar a cell: mean milliseconds a sample and the 10th to 90th percentile.

    ``length``, ``begin`` and ``extent`` (of the percentiles) are percentages of what is longest.
    """
    longest = max(max(row.ms_per_sample, row.ms_per_sample_spread.p90) for row in rows)
    scale = 100 / (longest or 1.0)
    return [
        {
            "cell": row,
            "ms": row.ms_per_sample,
            "p10": spread.p10,
            "p90": spread.p90,
            "length": scale * row.ms_per_sample,
            "begin": scale * spread.p10,
            "extent": scale * (spread.p90 - spread.p10),
        }
        for row in rows
        for spread in [row.ms_per_sample_spread]
    ]


def acceptance(rows: Sequence[Cell]) -> Chart | None:
    """Plot the share of steps in which at least k draft tokens were accepted, against k.

    None where nothing drafted.
    """
    lines = {row.label: [*enumerate(row.accepted_by_position, 1)] for row in rows}
    if not any(lines.values()):
        return None
    axes = "draft position k", "share of steps accepting ≥ k"
    return chart("Acceptance by position", lines, *axes, highest=1)


def where_time_goes(rows: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a stacked bar a cell: its milliseconds a sample, by part of the loop.

    ``length`` is the percentage of the longest bar, ``share`` that of the bar. The page draws them
    itself, so that names and numbers stay readable on a narrow screen.
    """
    bars = []
    for row in rows:
        parts = {part: 1000 * seconds / row.samples for part, seconds in row.seconds}
        bars.append({"cell": row, "ms": sum(parts.values()), "parts": parts})
    longest = max((bar["ms"] for bar in bars), default=0.0) or 1.0
    for bar in bars:
        total = bar["ms"] or 1.0
        bar["length"] = 100 * bar["ms"] / longest
        bar["parts"] = [
            {"name": name, "ms": ms, "share": 100 * ms / total, "colour": colour}
            for (name, ms), colour in zip(bar["parts"].items(), COLOURS, strict=False)
        ]
    return bars
