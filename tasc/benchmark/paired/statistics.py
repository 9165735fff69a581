"""Tests and intervals for two systems on the same samples.

Where a sample is right or wrong, the test is McNemar's exact one (McNemar 1947, binomial form).
Intervals are paired percentile bootstraps over samples (Efron and Tibshirani 1993, chapter 13).
Both systems are resampled with the same samples, so the difficulty of a sample cancels out.
"""

import numpy as np

from tasc.benchmark.metrics.metric import Counts, Value, share
from tasc.report.record import Interval

CONFIDENCE = 0.95
RESAMPLES = 2000
_PART = 256  # resamples at a time: the sums of many labels are large
FEWEST = 10  # samples; the interval of fewer would be far too narrow


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the exact two-sided p-value of discordant samples on either side by chance."""
    from scipy.stats import binomtest

    drawn = only_first + only_second
    return float(binomtest(only_first, drawn).pvalue) if drawn else 1.0


def turn_length(batch_size: int) -> int:
    """Return the number of samples per turn, which share their time and are resampled together.

    Several batches, because the last sequences of a turn run in smaller and smaller batches.
    """
    return 1 if batch_size == 1 else 8 * batch_size


class Bootstrap:
    """Resamples of N samples, the same for every statistic."""

    def __init__(self, samples: int, *, resamples: int = RESAMPLES, seed: int = 0) -> None:
        """Draw the resamples. They take ``samples`` times ``resamples`` bytes."""
        rng = np.random.default_rng(seed)
        drawn = resamples if samples >= FEWEST else 0
        self._times = np.empty((drawn, samples), np.uint8)  # how often each sample was drawn
        for row in self._times:
            row[:] = np.bincount(rng.integers(samples, size=samples), minlength=samples)

    def values(self, value: Value, counts: Counts) -> np.ndarray:
        """Return ``value`` of the sums of ``counts`` (N, K) over each resample: (R, ...)."""
        parts = np.split(self._times, range(_PART, len(self._times), _PART))
        return np.concatenate([value(part.astype(float) @ counts) for part in parts])

    def interval(self, values: np.ndarray, confidence: float = CONFIDENCE) -> Interval:
        """Return the percentile interval of a statistic of each resample (R,).

        None below FEWEST samples.
        """
        if not len(values):
            return None
        tail = (1 - confidence) / 2
        low, high = np.quantile(values, [tail, 1 - tail]).tolist()
        return low, high

    def difference(
        self, value: Value, counts: Counts, others: Counts, confidence: float = CONFIDENCE
    ) -> tuple[float, Interval]:
        """Return ``value`` of the sums of ``counts`` minus that of ``others``, both (N, K)."""
        seen = float(value(counts.sum(0)) - value(others.sum(0)))
        drawn = self.values(value, counts) - self.values(value, others)
        return seen, self.interval(drawn, confidence)

    def ratio(
        self, cost: np.ndarray, other: np.ndarray, confidence: float = CONFIDENCE
    ) -> tuple[float, Interval]:
        """Return the cost per unit of work in ``other``, divided by that in ``cost``.

        Both are (N, 2): the cost and the work of each sample.
        """
        seen = float(share(other.sum(0)) / share(cost.sum(0)))
        drawn = self.values(share, other) / self.values(share, cost)
        return seen, self.interval(drawn, confidence)
