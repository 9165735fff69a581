"""Several benches side by side: what ``tasc report`` shows."""

from tasc.benchmark.metrics import find
from tasc.benchmark.metrics.metric import Metric
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.comparisons import ModelPair
from tasc.benchmark.results.conditions import Environment, Settings, Task
from tasc.benchmark.results.prediction import PredictedCell
from tasc.report.record import Record, Report


class Run(Record):
    """One bench."""

    label: str
    task: Task
    settings: Settings
    started: str
    environment: Environment
    warnings: tuple[str, ...]
    """What a reader must know before its figures."""


class RunCell(Record):
    """One cell of a bench, without its outputs."""

    run: str
    model: str
    method: str
    samples: int
    ms_per_sample: float
    tokens_per_second: float
    speedup: float
    """Against the first cell of its own bench."""
    tokens_per_step: float
    identical: int | None
    """Outputs that are those of the model's first method; None where they differ by chance."""
    predicted: PredictedCell | None
    quality: dict[str, float]

    @classmethod
    def of(
        cls, run: str, cell: Cell, first: Cell, predicted: tuple[PredictedCell, ...]
    ) -> "RunCell":
        """Take the figures of ``cell``."""
        own = (p for p in predicted if (p.model, p.method) == (cell.model, cell.method))
        return cls(
            run=run,
            speedup=cell.speedup(first),
            identical=cell.lossless and cell.lossless.identical,
            predicted=next(own, None),
            **{name: getattr(cell, name) for name in cls.model_fields.keys() & Cell.model_fields},
        )


class JoinedResults(Report):
    """Benches side by side."""

    runs: tuple[Run, ...]
    cells: tuple[RunCell, ...]
    """Of all runs, in order."""
    pairs: tuple[ModelPair, ...]
    """Models of different runs on the same samples, each as RUN · MODEL."""
    notes: tuple[str, ...]
    """What is not compared, and why."""

    @property
    def metrics(self) -> dict[str, Metric]:
        """Each metric of a run by its name."""
        names = dict.fromkeys(name for run in self.runs for name in run.settings.metrics)
        return {name: find(name) for name in names}
