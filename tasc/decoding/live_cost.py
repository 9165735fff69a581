"""T(k) as it is just now: a curve that was measured once, corrected by every forward since.

What was measured on a busy machine, or at another length of context, is wrong by a factor that
differs between sizes. So a size remembers the last forwards over about as many tokens, as ratios to
the curve; their lower quartile corrects it there, and in between by interpolation over log k.
"""

import math
from collections import deque
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from tasc.models.cost import CostCurve

WINDOW = 9  # forwards that a size remembers
STALE = 512  # forwards after which a size is as unknown as before its first
DOUBT = 3.0  # how much dearer an unknown size may look than it is
NOTICED = 0.03  # smaller changes of a correction change nothing
_PER_OCTAVE = 4  # sizes that are told apart
_GUESSED = 1e-3  # weight of a size that was not measured


class LiveCost:
    """A cost curve that forwards correct.

    One forward is enough to find that a size is cheaper than it looked, and it takes two to find
    that it is dearer: what else the machine does makes forwards slow and never fast.
    """

    def __init__(self, curve: CostCurve) -> None:
        """Begin with ``curve``."""
        self.curve, self.forwards = curve, 0
        self.expected = cache(lambda tokens: float(curve.at(tokens)))  # interpolating takes µs
        self.ratios: dict[int, deque[float]] = {}  # of measured to expected seconds, by size
        self.last: dict[int, int] = {}  # forward at which a size was seen
        self.corrections: dict[int, float] = {}

    def learn(self, tokens: int, seconds: float) -> bool:
        """Enter a forward over ``tokens`` tokens; return whether that changed the curve."""
        self.forwards += 1
        size = size_of(tokens)
        self.last[size] = self.forwards
        if seconds <= 0:
            return False  # a clock that stands still says nothing
        ratios = self.ratios.setdefault(size, deque[float]((), WINDOW))
        ratios.append(seconds / self.expected(tokens))
        if len(ratios) == 1 and seconds > self.at(np.array([tokens]))[0]:
            return False
        typical = sorted(ratios)[(len(ratios) - 1) // 4]
        if abs(typical / self.corrections.get(size, np.inf) - 1) <= NOTICED:
            return False
        self.corrections[size] = typical
        return True

    def at(self, tokens: npt.NDArray[np.int_]) -> npt.NDArray[np.float64]:
        """Return the seconds of forwards over ``tokens`` (n,), rising, ≥ 1; they do not fall.

        Where what was measured and what lies between contradict each other, the former counts.
        """
        found = self.curve.at(tokens)
        if not self.corrections:
            return found
        sizes = sorted(self.corrections)
        scale = _PER_OCTAVE * np.log2(tokens)
        corrected = found * np.interp(scale, sizes, [self.corrections[size] for size in sizes])
        if (np.diff(corrected) < 0).any():
            weights = np.where(np.isin(np.rint(scale), sizes), 1.0, _GUESSED)
            corrected = isotonic_regression(corrected, weights=weights).x
        rising: npt.NDArray[np.float64] = corrected
        return rising

    def hoped(self, tokens: npt.NDArray[np.int_]) -> npt.NDArray[np.float64]:
        """Return the least that forwards over ``tokens`` (n,), rising, may be found to take.

        What is known stands; what is not may be ``DOUBT`` times cheaper than it looks, but no
        cheaper than smaller forwards that are known, nor than the first of ``tokens``.
        """
        known = np.array([self.knows(int(k)) for k in tokens])
        known[0] = True
        seconds = self.at(tokens)
        least: npt.NDArray[np.float64] = np.maximum.accumulate(
            np.where(known, seconds, seconds / DOUBT)
        )
        return least

    def knows(self, tokens: int) -> bool:
        """Return whether a forward over about ``tokens`` tokens was measured lately."""
        seen = self.last.get(size_of(tokens))
        return seen is not None and self.forwards - seen < STALE


def size_of(tokens: int) -> int:
    """Return the size, on a logarithmic scale, that a forward over ``tokens`` belongs to."""
    return round(_PER_OCTAVE * math.log2(tokens))
