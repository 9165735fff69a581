"""A metric: counts for each sample, and a value computed from their sums.

A bootstrap therefore needs the counts once and never the texts again.
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
    summary: str  # definition in one sentence
    # Takes N outputs, their references and the delimiter; returns each sample's addends to K sums,
    # (N, K) float64, sparse if K is large. K depends on the references alone.
    count: Count
    # Takes sums (..., K) and returns the metric (...); for one row of counts, the sample's value.
    value: Value
    needs: str = ""  # required form of the outputs; empty for any text
    package: str = ""  # required distribution of the extra ``metrics``
    zero_one: bool = False  # whether a sample is right or wrong, which McNemar's test requires
    ready: Callable[[], object] = lambda: None  # raises InputError if a requirement is missing
    judged: bool = False  # whether scores come with the outputs, so that ``count`` is not called

    def check(self, name: str) -> None:
        """Raise InputError if a requirement is missing; ``name`` is the metric's name."""
        if self.package and find_spec(self.package.replace("-", "_")) is None:
            raise InputError(
                f"metric {name!r} needs {self.package}, which is not installed: "
                "install it with pip install 'tasc-lm[metrics]'"
            )
        self.ready()

    def score(self, outputs: Sequence[str], references: Sequence[str], delimiter: str) -> float:
        return float(self.value(self.count(outputs, references, delimiter).sum(0)))


def counts_of(scores: Sequence[float | None]) -> np.ndarray:
    """Return the counts (N, 2) of scores from 0 to 1 for ``share``; None counts as no sample."""
    counts = [[score or 0.0, score is not None] for score in scores]
    return np.array(counts, float).reshape(-1, 2)


def share(sums: np.ndarray) -> np.ndarray:
    """Divide (..., 2) sums: right by all samples, or cost by work."""
    value: np.ndarray = sums[..., 0] / np.maximum(sums[..., 1], 1)
    return value


def f1(sums: np.ndarray) -> np.ndarray:
    """Return F1 of (..., 3) sums: items in both, in the outputs, in the references."""
    value: np.ndarray = 2 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1)
    return value


def precision(sums: np.ndarray) -> np.ndarray:
    """Return the precision of the sums of ``f1``; 0 without items in the outputs."""
    return share(sums[..., [0, 1]])


def recall(sums: np.ndarray) -> np.ndarray:
    """Return the recall of the sums of ``f1``; 0 without items in the references."""
    return share(sums[..., [0, 2]])
