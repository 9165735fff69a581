"""``results.json`` of ``tasc bench``, typed, and several benches side by side.

The version rises when a field is removed or changes its meaning. The JSON schema in the docs is
generated from these classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from tasc.benchmark.metrics import find
from tasc.benchmark.metrics.metric import Metric
from tasc.benchmark.results.answers import Majority, WrongOutput
from tasc.benchmark.results.cells import Cell, ReferenceMatch
from tasc.benchmark.results.comparisons import (
    CellComparison,
    ModelPair,
    QualityDifference,
    Seeds,
    SeedsPair,
)
from tasc.benchmark.results.conditions import RunResult, Sample, Settings, Task
from tasc.benchmark.results.prediction import PredictedCell, Prediction
from tasc.report.record import Record, Report


@dataclass(frozen=True)
class QualityChange:
    """A metric of the first model and of another one, each with its first method."""

    metric: Metric
    old: float
    new: float
    difference: QualityDifference | None  # None between seeds of one model

    @property
    def is_loss(self) -> bool:
        return self.difference is not None and self.difference.is_loss

    @property
    def p_value(self) -> float | None:
        """McNemar's p-value, for metrics where a sample is right or wrong."""
        test = self.difference and self.difference.mcnemar
        return test.p_value if test else None


class BenchResults(RunResult):
    """Models and methods on the same samples."""

    version: Literal[3] = 3
    """Version of this format."""
    task: Task
    settings: Settings
    samples: tuple[Sample, ...]
    """In the order of each cell's outputs."""
    cells: tuple[Cell, ...]
    """One per model and method."""
    reference: tuple[ReferenceMatch, ...]
    """Each model compared with transformers' own decoding."""
    comparisons: tuple[CellComparison, ...]
    """Each cell compared with the first cell, and with the first method of its model."""
    pairs: tuple[ModelPair, ...]
    """Each model compared with those before it."""
    seeds: tuple[Seeds, ...]
    """Models with several seeds."""
    seeds_pairs: tuple[SeedsPair, ...]
    """Each model with several seeds compared with those before it."""
    prediction: Prediction
    majority: Majority | None = None
    """For comparison, in classification tasks; None for others."""
    wrong_outputs: tuple[WrongOutput, ...] = ()
    """The first three of each model."""
    resumed_turns: int = 0
    """Turns that an interrupted run had measured."""

    @property
    def metrics(self) -> dict[str, Metric]:
        return {name: find(name) for name in self.settings.metrics}

    @property
    def by_model(self) -> dict[str, list[Cell]]:
        cells = dict[str, list[Cell]]()
        for cell in self.cells:
            cells.setdefault(cell.model, []).append(cell)
        return cells

    def contradictions(self) -> Iterator[str]:
        """Yield what no bench writes: parts that the figures refer to and that are missing."""
        if not self.cells or not self.samples:
            yield "it has no cells or no samples"
        yield from self._unknown_names()
        if self.task.corpus_repeated > self.task.corpus_outputs:
            yield "more examples of its corpus are repeated than there are"
        for cell in self.cells:
            if not {*self.settings.metrics} <= cell.quality.keys():
                yield f"{cell.label} lacks a metric"
            times = (cell.ms_per_sample, cell.tokens_per_second, cell.samples)
            if not all(0 < time < inf for time in times):
                yield f"{cell.label} has times or samples that are not positive"
            if len(cell.outputs) != len(self.samples) or not all(o.ms for o in cell.outputs):
                yield f"{cell.label} has other outputs than {len(self.samples)} timed ones"

    def _unknown_names(self) -> Iterator[str]:
        cells = {(cell.model, cell.method) for cell in self.cells}
        named = {(n.model, n.method) for one in self.comparisons for n in (one, one.against)}
        named |= {(one.model, one.method) for one in self.reference}
        named |= {(one.model, one.method) for one in self.prediction.cells}
        compared = {model for pair in self.pairs for model in (pair.model, pair.against)}
        compared |= {wrong.model for wrong in self.wrong_outputs}
        scored = [{*pair.quality} for pair in self.pairs] + [{*one.quality} for one in self.seeds]
        metrics = {*self.settings.metrics}
        scored += [metrics | self.majority.quality.keys()] if self.majority else []
        for model, method in sorted(named - cells):
            yield f"it compares {model} · {method}, which is not in its cells"
        for model in sorted(compared - {model for model, _ in cells}):
            yield f"it compares the model {model}, which is not in its cells"
        if any(names != metrics for names in scored):
            yield "it compares other metrics than its settings have"

    def quality_changes(self, model: str) -> list[QualityChange]:
        """Return the change in each metric from the first model to ``model``; [] for the first."""
        first = self.cells[0]
        if model == first.model:
            return []
        cell = self.by_model[model][0]
        pairs = {(pair.model, pair.against): pair.quality for pair in self.pairs}
        tested = pairs.get((model, first.model), {})
        return [
            QualityChange(metric, first.quality[name], cell.quality[name], tested.get(name))
            for name, metric in self.metrics.items()
        ]


class Run(Record):
    """One of the benches."""

    label: str
    bench: BenchResults
    warnings: tuple[str, ...]
    """The warnings about its figures."""

    @property
    def fastest(self) -> Cell:
        """The fastest cell of the first model, without the first cell if there are others."""
        first, *others = self.bench.by_model[self.bench.cells[0].model]
        return max(others or [first], key=lambda cell: cell.speedup(first))

    def rows(self) -> Iterator[tuple[Cell, float, PredictedCell | None]]:
        """Yield each cell, its speed-up over the first cell, and its prediction."""
        predicted = {(p.model, p.method): p for p in self.bench.prediction.cells}
        for cell in self.bench.cells:
            yield cell, cell.speedup(self.bench.cells[0]), predicted.get((cell.model, cell.method))


class JoinedResults(Report):
    """Benches side by side, as ``tasc report`` shows them."""

    runs: tuple[Run, ...]
    pairs: tuple[ModelPair, ...]
    """Models of different runs on the same samples, each as RUN · MODEL."""
    notes: tuple[str, ...]
    """Figures that were not compared, with the reason."""

    @property
    def metrics(self) -> dict[str, Metric]:
        names = dict.fromkeys(name for run in self.runs for name in run.bench.settings.metrics)
        return {name: find(name) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON values without samples and outputs, which the benches' files contain."""
        bench: Any = {"samples": True, "cells": {"__all__": {"outputs": True}}}
        return self.model_dump(mode="json", exclude={"runs": {"__all__": {"bench": bench}}})
