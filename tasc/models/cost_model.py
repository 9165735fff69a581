"""The cost model: T(k), the seconds of one forward over k tokens. Imports no torch.

A step scores the last token and k - 1 draft nodes in one forward. While the device waits for the
weights rather than for arithmetic, T(k) hardly rises; beyond that point a larger tree no longer
pays. ``models/cost.py`` measures it.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from tasc.errors import InputError

CONTEXT = 128
LONGEST_CHAIN = 512  # tokens of a prompt that is read together with a tree
SUCCESSORS = 8  # largest logits of a row, which recycling reads
TOKEN_COST = 0.05  # of a forward of one token: the cost of one more token on a CPU
WINDOW = 9  # forwards remembered per size
STALE = 512  # forwards after which a size counts as unknown again
DOUBT = 3.0  # assumed largest overestimate of an unknown size
NOTICED = 0.03  # smaller changes of a correction are ignored
FASTER = 0.8  # a correction that falls below this share shows that other work has ended
_PER_OCTAVE = 4  # sizes told apart
_UNMEASURED = 1e-3  # weight of a size that was not measured

Seconds = npt.NDArray[np.float64]


@dataclass
class CostModel:
    """T(k): ``seconds[i]`` of one forward over ``sizes[i]`` tokens after ``context`` others.

    ``record`` corrects it by forwards as they happen: times measured on a loaded machine, or at
    another length of context, are wrong by a factor that differs between sizes. Each size keeps the
    ratios of its last forwards to the measured times; their lower quartile corrects it, and other
    sizes by interpolation over log k. One forward is enough to find a size cheaper than expected,
    and it takes two to find it dearer: other work on the machine only ever slows forwards down.
    When a size becomes much cheaper, other work has ended, and the other sizes are forgotten.

    ``turns`` has the model that each turn of the measurement alone would give. Turns differ on a
    loaded machine. A cached model has none.
    """

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    context: int = CONTEXT
    turns: tuple["CostModel", ...] = field(default=(), repr=False, compare=False)
    chains_only: bool = field(default=False, repr=False, compare=False)  # as the target is
    drafts_first: bool = field(default=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        rising = self.sizes[:1] == (1,) and all(np.diff(self.sizes) > 0)
        if not rising or len(self.seconds) != len(self.sizes):
            raise InputError(
                f"a cost model needs sizes that rise from 1 and one time for each, got "
                f"{len(self.seconds)} times for sizes {self.sizes}"
            )
        times = np.array(self.seconds)
        if not (np.isfinite(times).all() and times[0] > 0 and (np.diff(times) >= 0).all()):
            raise InputError(
                f"the times of a cost model must be positive and must not fall, got {self.seconds}"
            )
        self.forwards = 0
        self._ratios: dict[int, deque[float]] = {}  # size -> actual / measured seconds
        self._last: dict[int, int] = {}  # size -> its last forward
        self._corrections: dict[int, float] = {}
        self._measured: dict[int, float] = {}  # tokens -> seconds: interpolating takes µs

    @classmethod
    def from_option(cls, cost: float | Mapping[int, float] = TOKEN_COST) -> Self:
        """Build a model from seconds by size, or from the cost of one token as a share of T(1).

        Raises InputError for fewer than two sizes, a size below 1, or a time that is not positive.
        """
        seconds_by_size = {1: 1.0, 2: 1.0 + cost} if isinstance(cost, float | int) else dict(cost)
        sizes, seconds = (
            sorted(seconds_by_size),
            [seconds_by_size[size] for size in sorted(seconds_by_size)],
        )
        if len(sizes) < 2 or sizes[0] < 1 or not min(seconds) > 0:
            raise InputError(
                f"cost {cost!r}: give the seconds of a forward by its tokens, two sizes or more"
            )
        if sizes[0] > 1:
            sizes, seconds = [1, *sizes], [seconds[0], *seconds]
        return cls(tuple(sizes), tuple(np.maximum.accumulate(seconds).tolist()))

    def at(self, tokens: npt.ArrayLike) -> Seconds:
        """Return the seconds of forwards over ``tokens`` (any shape) ≥ 1 tokens each.

        Linear between the measured sizes, and beyond the last as between the last two. More tokens
        never take less time; where that contradicts a correction, recorded sizes outweigh others.
        """
        if not self._corrections:
            return self._uncorrected(tokens)
        rising, position = np.unique(tokens, return_inverse=True)
        sizes = sorted(self._corrections)
        scale = _PER_OCTAVE * np.log2(rising)
        factors = np.interp(scale, sizes, [self._corrections[size] for size in sizes])
        corrected = self._uncorrected(rising) * factors
        if (np.diff(corrected) < 0).any():
            try:
                from scipy.optimize import isotonic_regression
            except ImportError:  # next to an engine
                corrected = np.maximum.accumulate(corrected)
            else:
                weights = np.where(np.isin(np.rint(scale), sizes), 1.0, _UNMEASURED)
                corrected = isotonic_regression(corrected, weights=weights).x
        corrected_seconds: Seconds = corrected[position].reshape(np.shape(tokens))
        return corrected_seconds

    def _uncorrected(self, tokens: npt.ArrayLike) -> Seconds:
        k = np.asarray(tokens, np.float64)
        inside = np.interp(k, self.sizes, self.seconds)
        if len(self.sizes) == 1:
            return inside
        slope = (self.seconds[-1] - self.seconds[-2]) / (self.sizes[-1] - self.sizes[-2])
        return inside + np.maximum(k - self.sizes[-1], 0) * slope

    def token_cost(self, sequences: int) -> float:
        """Return the cost of one more token per sequence, in forwards of all ``sequences``.

        It rises with ``sequences``: a forward that many share is already busy.
        """
        return max(float(self.at(2 * sequences) / self.at(sequences)) - 1, 0.0)

    def record(self, tokens: int, seconds: float) -> bool:
        """Record a forward over ``tokens`` tokens; return whether that changed the model."""
        self.forwards += 1
        size = round(_PER_OCTAVE * math.log2(tokens))
        self._last[size] = self.forwards
        if seconds <= 0:
            return False  # the clock did not advance
        if tokens not in self._measured:
            self._measured[tokens] = float(self._uncorrected(tokens))
        ratios = self._ratios.setdefault(size, deque[float]((), WINDOW))
        ratios.append(seconds / self._measured[tokens])
        if len(ratios) == 1 and seconds > float(self.at(tokens)):
            return False
        typical = sorted(ratios)[(len(ratios) - 1) // 4]
        before = self._corrections.get(size, np.inf)
        if abs(typical / before - 1) <= NOTICED:
            return False
        if typical < FASTER * before < np.inf:
            self._ratios, self._last, self._corrections = {size: ratios}, {size: self.forwards}, {}
        self._corrections[size] = typical
        return True

    def optimistic(self, tokens: npt.NDArray[np.int_]) -> Seconds:
        """Return the least seconds that forwards over ``tokens`` (n,), rising, might take.

        An unknown size may be ``DOUBT`` times cheaper than it looks, but no cheaper than a smaller
        known size or the first of ``tokens``.
        """
        is_known = self.is_known(tokens)
        is_known[0] = True
        seconds = self.at(tokens)
        return np.maximum.accumulate(np.where(is_known, seconds, seconds / DOUBT))

    def is_known(self, tokens: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return whether forwards over about ``tokens`` tokens (...) were recorded recently."""
        recent = [size for size, last in self._last.items() if self.forwards - last < STALE]
        return np.isin(np.rint(_PER_OCTAVE * np.log2(tokens)), recent)
