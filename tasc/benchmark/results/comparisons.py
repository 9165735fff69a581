"""Comparisons on the same samples: cells, models, seeds, and two benches."""

from typing import Literal

from tasc.report.record import Interval, Record, Report

_SIGNIFICANT = 0.05  # p-value of a single test


class CellName(Record):
    """The model and the method of a cell."""

    model: str
    method: str


class CellComparison(CellName):
    """A cell compared with another one on the same samples."""

    against: CellName
    speedup: float
    """Ratio of the times per sample; of tokens per second where outputs differ by chance."""
    speedup_interval: Interval
    """95 %, paired bootstrap over samples; None below 10 samples."""
    fewer_steps: float
    """Decoding steps of the other cell, divided by those of this one."""


class McNemar(Record):
    """Samples that only one of two models has right, and McNemar's exact test on them."""

    only_model: int
    only_against: int
    p_value: float
    """Two-sided, for this pair and metric alone: many pairs need a smaller one."""


class QualityDifference(Record):
    """A metric of one model minus that of another."""

    difference: float
    interval: Interval
    """95 %, paired bootstrap over samples; None below 10 samples."""
    mcnemar: McNemar | None
    """For metrics where a sample is right or wrong."""

    @property
    def is_loss(self) -> bool:
        """Whether quality falls significantly, at the 5 % level of this one comparison."""
        if self.mcnemar is not None:
            return self.difference < 0 and self.mcnemar.p_value < _SIGNIFICANT
        return self.interval is not None and self.interval[1] < 0

    @property
    def is_gain(self) -> bool:
        """Whether quality rises significantly, at the same level."""
        if self.mcnemar is not None:
            return self.difference > 0 and self.mcnemar.p_value < _SIGNIFICANT
        return self.interval is not None and self.interval[0] > 0


class SpeedRatio(Record):
    """How many times as fast one system is as another."""

    ratio: float
    interval: Interval
    """95 %, paired bootstrap over samples; None below 10 samples."""


class ModelPair(Record):
    """Two models on the same samples."""

    model: str
    against: str
    quality: dict[str, QualityDifference]
    """By metric, for the first method of each model."""
    speed: dict[str, SpeedRatio]
    """By method, for the methods that both models ran."""


class Spread(Record):
    """A figure over several seeds."""

    mean: float
    sd: float
    """Standard deviation over the seeds (n - 1)."""
    values: tuple[float, ...]


class Seeds(CellName):
    """One method over the seeds of a model, which are named ``MODEL#1``, ``MODEL#2``, …"""

    models: tuple[str, ...]
    """Labels of the seeds."""
    ms_per_sample: Spread
    decoding_steps_per_output: Spread
    speedup: Spread
    """Over the first cell."""
    quality: dict[str, Spread]


class SeedsDifference(Record):
    """The mean of a metric over the seeds of one model minus that of another."""

    difference: float
    interval: Interval
    """95 %, Welch's t over the seeds; None if no seed differs from another."""


class SeedsPair(Record):
    """Two models with several seeds each."""

    model: str
    against: str
    quality: dict[str, SeedsDifference]


class Change(CellName):
    """One figure of a cell in two benches."""

    what: str
    """ "speed", "steps", or a metric."""
    old: float
    """Milliseconds per sample, steps per output, or the metric."""
    new: float
    change: float
    """Difference of a metric; ratio of speeds or of steps, where below 1 is worse."""
    interval: Interval
    """Of the change, paired bootstrap over samples; None below 10 samples."""
    p_value: float | None
    """McNemar's, for metrics where a sample is right or wrong."""
    verdict: Literal["worse", "better", "within the noise"]


class ResultsComparison(Report):
    """The changes between two benches, for ``tasc compare``.

    All intervals hold together with 95 %: each has a confidence of 1 - 0.05 / (their number), and
    p-values must be below the same bound (Bonferroni).
    """

    old: str
    new: str
    samples: int
    confidence: float
    """Of each interval."""
    tolerance: float
    """Share by which the speeds of two runs of one program differ."""
    notes: tuple[str, ...]
    """Figures that were not compared, with the reason."""
    changes: tuple[Change, ...]

    @property
    def regressions(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.verdict == "worse")
