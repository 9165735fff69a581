"""What a metric is: counts of each sample, and a value of their sums.

Every aggregate is a function of sums over samples, so a bootstrap needs the counts once and no text
again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tasc.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Counts: TypeAlias = "np.ndarray | csr_array"
Count = Callable[[Sequence[str], Sequence[str], str], Counts]
Value = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Metric:
    """A quality between 0 and 1."""

    label: str  # heads its column
    summary: str  # what it is, one sentence
    # Takes N outputs, their references and the delimiter, and returns (N, K) float64: what
    # each sample adds to K sums; sparse where K is large. K is the same for any outputs of the
    # same references.
    count: Count
    # Takes sums (..., K) and returns the metric (...); of one row of counts it is the sample's
    # own value.
    value: Value
    needs: str = ""  # what outputs must look like; any text where empty
    package: str = ""  # distribution to be installed, of the extra ``metrics``; none where empty
    zero_one: bool = False  # whether a sample is either right or wrong, as McNemar's test needs it
    ready: Callable[[], None] = lambda: None  # raises InputError where something else is lacking
    judged: bool = False  # whether outputs come with their scores, and ``count`` is never called

    def check(self, name: str) -> None:
        """Raise InputError where something is not there; ``name`` is the metric's own."""
        if self.package and find_spec(self.package.replace("-", "_")) is None:
            raise InputError(
                f"metric {name!r} needs {self.package}, which is not installed: "
                "install it with pip install 'tasc-lm[metrics]'"
            )
        self.ready()

    def score(self, outputs: Sequence[str], references: Sequence[str], delimiter: str) -> float:
        """Return the value over all samples."""
        return float(self.value(self.count(outputs, references, delimiter).sum(0)))


def judged_counts(scores: Sequence[float | None]) -> np.ndarray:
    """Return the counts (N, 2) of scores from 0 to 1; None counts as no sample."""
    return np.array([[score or 0.0, score is not None] for score in scores], float)


def share(sums: np.ndarray) -> np.ndarray:
    """Divide (..., 2) sums: how many are right, of how many; what samples cost, by their work."""
    found: np.ndarray = sums[..., 0] / np.maximum(sums[..., 1], 1)
    return found


def f1(sums: np.ndarray) -> np.ndarray:
    """Return F1 of (..., 3) sums: items in both, in outputs, in references."""
    found: np.ndarray = 2 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1)
    return found


def precision(sums: np.ndarray) -> np.ndarray:
    """Return the precision of sums as ``f1`` takes them; 0 without items in outputs."""
    return share(sums[..., [0, 1]])


def recall(sums: np.ndarray) -> np.ndarray:
    """Return the recall of sums as ``f1`` takes them; 0 without items in references."""
    return share(sums[..., [0, 2]])


def right(flags: Sequence[bool]) -> np.ndarray:
    """Return the counts (N, 2) of samples that are right or wrong."""
    return np.stack([np.array(flags, float), np.ones(len(flags))], axis=-1)
