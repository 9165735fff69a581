"""Samples of distinct outputs and of examples, chosen by hash, for predictions."""

import hashlib

import numpy as np
import numpy.typing as npt

from tasc.analysis.outputs import Distinct
from tasc.data.corpus import Rows

Hashes = npt.NDArray[np.uint64]
SAMPLE = 24_000_000  # characters of distinct outputs in a sample
ROWS = 400  # examples in a sample, with their prompts


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


class RowSample:
    """Samples the ROWS examples whose offsets have the smallest hashes.

    ``kept`` has their hashes, prompts and outputs in random order: any first k are a sample.
    """

    def __init__(self) -> None:
        self.kept: list[tuple[int, str, str]] = []
        self.below = np.uint64(2**64 - 1)

    def add(self, rows: Rows) -> None:
        hashes = _mix(np.array(rows.offsets, np.uint64))
        few = np.flatnonzero(hashes <= self.below).tolist()
        self.take([(int(hashes[i]), rows.prompt(i), rows.outputs[i]) for i in few])

    def take(self, kept: list[tuple[int, str, str]]) -> None:
        """Add examples with their hashes, from the sample of a part."""
        self.kept = sorted(self.kept + kept)[:ROWS]
        if len(self.kept) == ROWS:
            self.below = np.uint64(self.kept[-1][0])


def _mix(numbers: Hashes) -> Hashes:
    """Return a permutation of the 64-bit numbers that looks random (SplitMix64)."""
    z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
