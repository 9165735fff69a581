"""``report.html`` of a bench, self-contained and escaped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasc.benchmark.pages.samples import as_csv as as_csv
from tasc.benchmark.pages.samples import pieces, sample_views, sources_shown
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.comparisons import CellComparison
from tasc.benchmark.results.quality import QualityChange, quality_changes
from tasc.benchmark.results.warnings import warnings
from tasc.report.charts import COLOURS, Chart, chart
from tasc.report.html import template

_HEADLINES = 4  # cards for single methods, at most


def render(results: BenchResults) -> str:
    """Return the page."""
    return template("tasc.benchmark", "report.html").render(
        results=results,
        rows=results.cells,
        headlines=headlines(results),
        warnings=warnings(results),
        views=sample_views(results),
        pieces=pieces,
        sources=sources_shown(results),
        metrics=results.metrics,
        latency=latency(results.cells),
        acceptance=acceptance(results.cells),
        bars=where_time_goes(results.cells),
    )


@dataclass(frozen=True)
class Headline:
    """A cell compared with the first one, at the top of the page."""

    compared: CellComparison
    cell: Cell
    fastest_of: int  # methods of its model that it is the fastest of; 1 where all are shown
    # Of another model than the first: the metric that it loses significantly, else the first one
    quality: QualityChange | None

    @property
    def open(self) -> bool:
        """Whether the interval of its speed-up contains 1."""
        low, high = self.compared.speedup_interval or (1.0, 1.0)
        return low <= 1 <= high

    @property
    def useless(self) -> bool:
        """Whether its model lost half of its quality or more: its speed means nothing."""
        change = self.quality
        return change is not None and change.is_loss and change.new <= change.old / 2


def headlines(results: BenchResults) -> list[Headline]:
    """Return the cells at the top of the page, each compared with the first cell.

    Of more than ``_HEADLINES``, or of a useless model, only the fastest of each model.
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
        changes = quality_changes(results, model)
        quality = next((change for change in changes if change.is_loss), next(iter(changes), None))
        fastest = max(compared, key=lambda one: one.speedup)
        among = 1 if whole else len(compared)
        best = Headline(fastest, cells[model, fastest.method], among, quality)
        if best.useless or not whole:
            shown.append(best)
        else:
            shown += [Headline(one, cells[model, one.method], 1, quality) for one in compared]
    return shown


def latency(rows: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a bar per cell: mean milliseconds per sample and the 10th to 90th percentile.

    ``length``, ``begin`` and ``extent`` (of the percentiles) are in per cent of the longest bar.
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
    """Plot the share of steps that accept at least k draft tokens; None without drafts."""
    lines = {row.label: [*enumerate(row.accepted_by_position, 1)] for row in rows}
    if not any(lines.values()):
        return None
    axes = "draft position k", "share of steps accepting ≥ k"
    return chart("Acceptance by position", lines, *axes, highest=1)


def where_time_goes(rows: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a stacked bar per cell: milliseconds per sample by part of the loop.

    ``length`` is in per cent of the longest bar, ``share`` in per cent of its own.
    """
    totals = [1000 * sum(row.seconds.values()) / row.samples for row in rows]
    longest = max(totals, default=0.0) or 1.0
    return [
        {
            "cell": row,
            "ms": total,
            "length": 100 * total / longest,
            "parts": [
                {"name": name, "ms": ms, "share": 100 * ms / (total or 1.0), "colour": colour}
                for (name, seconds), colour in zip(row.seconds.items(), COLOURS, strict=False)
                for ms in [1000 * seconds / row.samples]
            ],
        }
        for row, total in zip(rows, totals, strict=True)
    ]
