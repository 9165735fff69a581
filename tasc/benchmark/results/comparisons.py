"""Cells against cells, models against models and seeds against seeds, on the same samples."""

from tasc.report.record import Interval, Record

_SIGNIFICANT = 0.05  # p-value of a single test


class CellName(Record):
    """Which cell."""

    model: str
    method: str


class CellComparison(CellName):
    """A cell against another one on the same samples."""

    against: CellName
    speedup: float
    """By time of a sample; by tokens per second where outputs differ by chance."""
    speedup_interval: Interval
    """95 %, paired bootstrap over samples; None below 10 samples."""
    speedup_median_of_samples: float
    speedup_by_repeat: tuple[float, ...]
    fewer_steps: float
    """Steps of the other by those of this one."""
    quality_change: dict[str, float]


class McNemar(Record):
    """Samples that only one of two models has right, and McNemar's exact test on them."""

    only_model: int
    only_against: int
    p_value: float
    """Two-sided, of one pair and metric alone: many pairs need a smaller one."""


class QualityDifference(Record):
    """A metric of one model less that of another."""

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


class SpeedRatio(Record):
    """How many times as fast."""

    ratio: float
    interval: Interval
    """95 %, paired bootstrap over samples; None below 10 samples."""


class ModelPair(Record):
    """Two models on the same samples."""

    model: str
    against: str
    quality: dict[str, QualityDifference]
    """By metric, of each model's first method."""
    speed: dict[str, SpeedRatio]
    """By each method that both ran."""


class Spread(Record):
    """A figure over the seeds."""

    mean: float
    sd: float
    """Standard deviation of a seed (n - 1)."""
    values: tuple[float, ...]


class Seeds(CellName):
    """The seeds of a model, named ``MODEL#1``, ``MODEL#2``, …, with one method."""

    models: tuple[str, ...]
    """The labels of the seeds."""
    ms_per_sample: Spread
    decoding_steps_per_output: Spread
    speedup: Spread
    """Against the first cell."""
    quality: dict[str, Spread]


class SeedsDifference(Record):
    """A metric, mean over the seeds of one model less that over those of another."""

    difference: float
    interval: Interval
    """95 %, Welch's t over the seeds; None where no seed differs from another."""


class SeedsPair(Record):
    """Two models of several seeds each: does the training make a difference, whatever the seed?"""

    model: str
    against: str
    quality: dict[str, SeedsDifference]
