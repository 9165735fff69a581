"""Holding out rows where data have no split for it.

The inputs decide, so the same rows are held out in any file format and any order, and all rows with
the same input stay together.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tasc.data.table import VALIDATION_NAMES

TRAIN, VALIDATION, TEST = "train", "validation", "test"
FEWEST_DIFFERENT = 20  # inputs; of fewer, whole examples are divided
_SHARE = 10  # one in so many inputs is held out for each split
_FEWEST = 10  # rows of a held-out split, if half of the inputs remain
_MOST = 2_000  # inputs of a held-out split
_RECENT = 1 << 20  # hashes that are collected before repeated ones are dropped


class Origin(NamedTuple):
    """The row that an example is from. Rows are divided by it; the answers of a chat share it."""

    input: str
    output: str


@dataclass(frozen=True)
class Division:
    """A division of rows into train and held-out splits."""

    seed: int
    names: tuple[str, ...] = ()  # of the held-out splits
    below: tuple[int, ...] = ()  # the hashes that end them, ascending
    by_example: bool = False  # whether outputs count, too, because few inputs differ

    def split_of(self, origin: Origin) -> str:
        """Return the name of the split that a row belongs to."""
        if not self.names:
            return TRAIN
        number = _hash(self.seed, origin, by_example=self.by_example)
        ends = zip(self.names, self.below, strict=True)
        return next((name for name, below in ends if number < below), TRAIN)


def missing_splits(existing: Iterable[str]) -> list[str]:
    """Return the splits that data lack: validation, test, or both.

    Splits of other names than these and train may be tests, so that none is missing.
    """
    names = set(existing)
    validates, others = names.intersection(VALIDATION_NAMES), names - {TRAIN, *VALIDATION_NAMES}
    return ([] if validates else [VALIDATION]) + ([] if others else [TEST])


def divide(origins: Iterable[Origin], names: Sequence[str], seed: int) -> Division:
    """Return a division of rows into train and the held-out splits ``names``.

    Each held-out split has a tenth of the different inputs, at most 2,000, and about ten rows at
    least if half of the inputs remain for train. Whole examples take the place of inputs if fewer
    than 20 inputs differ. Memory grows by 8 bytes per different input.
    """
    if not names:
        return Division(seed)
    inputs, examples = _Different(), _Different()
    few, rows = True, 0
    for origin in origins:
        rows += 1
        inputs.add(_hash(seed, origin, by_example=False))
        if few and len(inputs.recent) >= FEWEST_DIFFERENT:
            few = len(inputs.all()) < FEWEST_DIFFERENT
        if few:
            examples.add(_hash(seed, origin, by_example=True))
    few = few and len(inputs.all()) < FEWEST_DIFFERENT
    hashes = (examples if few else inputs).all()
    return Division(seed, tuple(names), _ends(hashes, rows, len(names)), few)


class _Different:
    """The different ones of many hashes."""

    def __init__(self) -> None:
        self.merged, self.recent = np.zeros(0, np.uint64), list[int]()

    def add(self, number: int) -> None:
        self.recent.append(number)
        if len(self.recent) >= max(_RECENT, len(self.merged) // 4):
            self.all()

    def all(self) -> npt.NDArray[np.uint64]:
        """Return them (N,), ascending."""
        recent = np.array(self.recent, np.uint64)
        self.merged, self.recent = np.unique(np.concatenate([self.merged, recent])), []
        return self.merged


def _ends(hashes: npt.NDArray[np.uint64], rows: int, splits: int) -> tuple[int, ...]:
    """Return the first hash after each of so many splits; ``hashes`` (N,) are ascending."""
    count = len(hashes)
    fewest = -(-_FEWEST * count // max(rows, 1))
    each = min(max(count // _SHARE, min(fewest, count // (2 * splits))), _MOST)
    return tuple(int(hashes[each * number]) if count else 0 for number in range(1, splits + 1))


def _hash(seed: int, origin: Origin, *, by_example: bool) -> int:
    text = f"{seed}\0{origin.input}" + (f"\0{origin.output}" if by_example else "")
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
