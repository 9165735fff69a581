"""A sample of distinct outputs, chosen by hash, for predictions."""

import hashlib

import numpy as np
import numpy.typing as npt

from tasc.analysis.outputs import Distinct

Hashes = npt.NDArray[np.uint64]
SAMPLE = 24_000_000  # characters of distinct outputs in a sample


class Sample:
    """Counts distinct outputs, and samples those with a hash below a threshold.

    The threshold falls as the sample grows too large. Only the hash of an output decides whether it
    is in the sample, so its count is exact, and neither order nor batches matter.
    """

    def __init__(self) -> None:
        self.sampled: dict[str, tuple[int, int]] = {}  # output -> hash and count
        self.characters, self.below = 0, 1 << 64
        self.hashes = np.zeros(0, np.uint64)  # distinct and sorted
        self.recent: list[Hashes] = []  # not yet merged into ``hashes``

    def add(self, window: dict[str, int], distinct: Hashes | None = None) -> None:
        """Add distinct outputs with their counts.

        If they are the sample of a part, ``distinct`` has the hashes (D,) of all its outputs.
        """
        if not window:
            return
        digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in window)
        hashes = [int.from_bytes(digest, "little") for digest in digests]
        self.recent.append(np.array(hashes, np.uint64) if distinct is None else distinct)
        if sum(map(len, self.recent)) > len(self.hashes) // 4:  # each merge sorts all hashes
            self._merge()
        for (text, count), number in zip(window.items(), hashes, strict=True):
            if number >= self.below:
                continue
            before = self.sampled.get(text)
            self.sampled[text] = (number, count + (before[1] if before else 0))
            self.characters += 0 if before else len(text)
        while self.characters > SAMPLE:
            below = self.below // 2
            fewer = {text: entry for text, entry in self.sampled.items() if entry[0] < below}
            if not fewer:  # a few outputs of extreme length
                return
            self.sampled, self.below, self.characters = fewer, below, sum(map(len, fewer))

    @property
    def distinct(self) -> Hashes:
        """The hashes (D,) of all distinct outputs, ascending."""
        self._merge()
        return self.hashes

    def _merge(self) -> None:
        self.hashes = np.unique(np.concatenate([self.hashes, *self.recent]))
        self.recent = []

    def finish(self) -> Distinct:
        weights = np.array([count for _, count in self.sampled.values()], np.int64)
        return Distinct(list(self.sampled), weights)
