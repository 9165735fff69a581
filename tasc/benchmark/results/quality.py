"""Changes in quality from the first model of a bench to another, and whether they are losses."""

from dataclasses import dataclass

from tasc.benchmark.metrics.metric import Metric
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.comparisons import QualityDifference


@dataclass(frozen=True)
class QualityChange:
    """A metric of the first model and of another one, by the first method of each."""

    metric: Metric
    old: float
    new: float
    difference: QualityDifference | None  # None between seeds of one model

    @property
    def is_loss(self) -> bool:
        """Whether it is a significant loss."""
        return self.difference is not None and self.difference.is_loss

    @property
    def p_value(self) -> float | None:
        """McNemar's p-value, for metrics where a sample is right or wrong."""
        test = self.difference and self.difference.mcnemar
        return test.p_value if test else None


def quality_changes(results: BenchResults, model: str) -> list[QualityChange]:
    """Return the change in each metric from the first model to ``model``; none for the first."""
    first = results.cells[0]
    if model == first.model:
        return []
    own = next(cell for cell in results.cells if cell.model == model)
    pairs = [p for p in results.pairs if (p.model, p.against) == (model, first.model)]
    tested = pairs[0].quality if pairs else {}
    return [
        QualityChange(metric, first.quality[name], own.quality[name], tested.get(name))
        for name, metric in results.metrics.items()
    ]
