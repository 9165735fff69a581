"""What ``tasc compare`` found between two benches of the same samples."""

from typing import Literal

from tasc.benchmark.results.comparisons import CellName
from tasc.report.record import Interval, Report


class Change(CellName):
    """One figure of a cell, before and after."""

    what: str
    """ "speed", "steps", or a metric."""
    old: float
    """Milliseconds a sample, steps an output, or the metric."""
    new: float
    change: float
    """Of a metric new - old; else how many times as fast, or fewer: below 1 is worse."""
    interval: Interval
    """Of that; paired bootstrap over samples. None below 10 samples."""
    p_value: float | None
    """McNemar's, for metrics where a sample is right or wrong."""
    verdict: Literal["worse", "better", "within the noise"]


class ResultsComparison(Report):
    """Every change, and whether one is a regression.

    All intervals hold together with 95 %: each has a confidence of 1 - 0.05 / (their number)
    (Bonferroni), and p-values are held to the same bound.
    """

    old: str
    new: str
    samples: int
    confidence: float
    """Of each interval."""
    tolerance: float
    """Share of speed that two runs of one program differ by."""
    notes: tuple[str, ...]
    """What was not compared, and why."""
    changes: tuple[Change, ...]

    @property
    def regressions(self) -> tuple[Change, ...]:
        """What is worse beyond the noise."""
        return tuple(change for change in self.changes if change.verdict == "worse")
