"""Several benches side by side, as ``tasc report`` shows them."""

from collections.abc import Iterator
from typing import Any

from tasc.benchmark.metrics import find
from tasc.benchmark.metrics.metric import Metric
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.comparisons import ModelPair
from tasc.benchmark.results.prediction import PredictedCell
from tasc.report.record import Record, Report


class Run(Record):
    """One of the benches."""

    label: str
    bench: BenchResults
    warnings: tuple[str, ...]
    """The warnings about its figures."""

    def rows(self) -> Iterator[tuple[Cell, float, PredictedCell | None]]:
        """Yield each cell, its speed-up over the first cell, and its prediction."""
        predicted = {(p.model, p.method): p for p in self.bench.prediction.cells}
        for cell in self.bench.cells:
            yield cell, cell.speedup(self.bench.cells[0]), predicted.get((cell.model, cell.method))


class JoinedResults(Report):
    """Benches side by side."""

    runs: tuple[Run, ...]
    pairs: tuple[ModelPair, ...]
    """Models of different runs on the same samples, each as RUN · MODEL."""
    notes: tuple[str, ...]
    """Figures that were not compared, with the reason."""

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics of all runs by name."""
        names = dict.fromkeys(name for run in self.runs for name in run.bench.settings.metrics)
        return {name: find(name) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON values without samples and outputs, which the benches' files contain."""
        bench: Any = {"samples": True, "cells": {"__all__": {"outputs": True}}}
        return self.model_dump(mode="json", exclude={"runs": {"__all__": {"bench": bench}}})
