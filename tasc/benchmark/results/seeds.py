"""Several trainings of one model in a bench."""

from tasc.benchmark.results.comparisons import CellName
from tasc.benchmark.results.record import Interval, Record


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
