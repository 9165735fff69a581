"""``report.html`` of a bench. The page is self-contained and escaped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasc.benchmark.pages.samples import all_wrong_outputs, pieces, sample_views, sources_shown
from tasc.benchmark.results.bench import BenchResults, QualityChange
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.comparisons import CellComparison
from tasc.benchmark.results.quality import Concern, concern, quality_lines
from tasc.benchmark.results.warnings import advice
from tasc.report.charts import COLOURS, Chart, chart
from tasc.report.html import template

_HEADLINES = 4  # most cells at the top of the page


def render(results: BenchResults) -> str:
    """Return the page."""
    return template("tasc.benchmark", "report.html").render(
        results=results,
        headlines=headlines(results),
        quality_lines=quality_lines(results),
        advice=advice(results),
        wrong=all_wrong_outputs(results),
        views=sample_views(results),
        pieces=pieces,
        sources=sources_shown(results),
        metrics=results.metrics,
        latency=latency(results.cells),
        acceptance=acceptance(results.cells),
        bars=time_by_part(results.cells),
    )


@dataclass(frozen=True)
class Headline:
    """A cell at the top of the page, compared with the first cell."""

    compared: CellComparison
    cell: Cell
    fastest_of: int  # number of methods of which only this fastest one is shown
    quality: QualityChange | None  # the first metric, of another model than the first
    concern: Concern | None  # why its quality comes before its speed

    @property
    def open(self) -> bool:
        """Whether the interval of its speed-up contains 1."""
        low, high = self.compared.speedup_interval or (1.0, 1.0)
        return low <= 1 <= high

    @property
    def useless(self) -> bool:
        """Whether its model has so little quality that its speed means nothing."""
        return self.concern is not None and self.concern.useless


def headlines(results: BenchResults) -> list[Headline]:
    """Return the cells at the top of the page: all but the first, in at most ``_HEADLINES`` cards.

    If there are more, or if a model is useless, only the fastest of its methods. A method that
    chooses among labels has a quality of its own, and is not useless if plain decoding is.
    """
    first = results.cells[0]
    cells = {(cell.model, cell.method): cell for cell in results.cells}
    by_model = dict[str, list[CellComparison]]()
    for one in results.comparisons:
        if (one.against.model, one.against.method) == (first.model, first.method):
            by_model.setdefault(one.model, []).append(one)
    crowded = sum(map(len, by_model.values())) > _HEADLINES
    cards = list[Headline]()
    for model, compared in by_model.items():
        quality = next(iter(results.quality_changes(model)), None)
        problem, decodes = concern(results, model), not results.by_model[model][0].chooses
        model_cards = [
            Headline(
                compared=one,
                cell=cells[model, one.method],
                fastest_of=len(compared) if crowded else 1,
                quality=quality,
                concern=None if decodes and cells[model, one.method].chooses else problem,
            )
            for one in compared
        ]
        useless = [card for card in model_cards if card.useless]
        alike = model_cards if crowded else useless
        cards += sorted(alike, key=lambda card: card.compared.speedup)[-1:]
        cards += [card for card in model_cards if card not in alike]
    return cards


def latency(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a bar per cell: mean milliseconds per sample and the 10th to 90th percentile.

    ``length``, ``begin`` and ``extent`` (of the percentiles) are in per cent of the longest bar.
    """
    longest = max(max(cell.ms_per_sample, cell.ms_per_sample_spread.p90) for cell in cells)
    scale = 100 / (longest or 1.0)
    bars = []
    for cell in cells:
        p10, p90 = cell.ms_per_sample_spread.p10, cell.ms_per_sample_spread.p90
        bar = {"cell": cell, "length": scale * cell.ms_per_sample}
        bars.append(bar | {"begin": scale * p10, "extent": scale * (p90 - p10)})
    return bars


def acceptance(cells: Sequence[Cell]) -> Chart | None:
    """Plot the share of steps that accept at least k draft tokens; None without drafts."""
    lines = {cell.label: [*enumerate(cell.accepted_by_position, 1)] for cell in cells}
    if not any(lines.values()):
        return None
    axes = "draft position k", "share of steps accepting ≥ k"
    return chart("Acceptance by position", lines, *axes, highest=1)


def time_by_part(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a stacked bar per cell: milliseconds per sample by part of the loop.

    ``length`` is in per cent of the longest bar, ``share`` in per cent of its own bar.
    """
    totals = [1000 * sum(cell.seconds.values()) / cell.samples for cell in cells]
    longest = max(totals, default=0.0) or 1.0
    bars = []
    for cell, total in zip(cells, totals, strict=True):
        ms = {name: 1000 * seconds / cell.samples for name, seconds in cell.seconds.items()}
        parts = [
            {"name": name, "ms": part_ms, "share": 100 * part_ms / (total or 1.0), "colour": colour}
            for (name, part_ms), colour in zip(ms.items(), COLOURS, strict=False)
        ]
        bars.append({"cell": cell, "ms": total, "length": 100 * total / longest, "parts": parts})
    return bars
