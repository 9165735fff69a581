"""The outputs that predictions are made from: all different ones, or a sample by their hashes."""

import hashlib

import numpy as np
import numpy.typing as npt

from tasc.analysis.tokens import Distinct

SAMPLE = 24_000_000  # characters of different outputs that are kept


class Sample:
    """Counts different outputs, and keeps those whose hash is below a threshold.

    It falls as they become too many. An output is kept or not by its own hash, so its multiplicity
    is exact, and neither the order nor the batches matter.
    """

    def __init__(self) -> None:
        """Hold nothing yet."""
        self.kept: dict[str, tuple[int, int]] = {}  # hash and multiplicity
        self.held, self.below = 0, 1 << 64
        self.hashes = np.zeros(0, np.uint64)  # different ones, and those that may be among them:
        self.recent: list[npt.NDArray[np.uint64]] = []

    def add(self, window: dict[str, int]) -> None:
        """Take different outputs with their counts."""
        if not window:
            return
        hashes = [_hash(text) for text in window]
        self.recent.append(np.array(hashes, np.uint64))
        if sum(map(len, self.recent)) > len(self.hashes) // 4:  # each costs as much as all hashes
            self._unite()
        for (text, count), number in zip(window.items(), hashes, strict=True):
            if number >= self.below:
                continue
            before = self.kept.get(text)
            self.kept[text] = (number, count + (before[1] if before else 0))
            self.held += 0 if before else len(text)
        while self.held > SAMPLE:
            below = self.below // 2
            fewer = {text: entry for text, entry in self.kept.items() if entry[0] < below}
            if not fewer:  # a few outputs, each beyond all measure
                return
            self.kept, self.below, self.held = fewer, below, sum(map(len, fewer))

    @property
    def distinct(self) -> int:
        """How many different outputs there were."""
        self._unite()
        return len(self.hashes)

    def _unite(self) -> None:
        self.hashes = np.unique(np.concatenate([self.hashes, *self.recent]))
        self.recent = []

    def finish(self) -> Distinct:
        """Return those that were kept."""
        weights = np.array([count for _, count in self.kept.values()], np.int64)
        return Distinct(list(self.kept), weights)


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
