"""What predictions are made from: different outputs, and some rows, each chosen by a hash."""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasc.analysis.outputs import Distinct
from tasc.data.corpus import Rows

SAMPLE = 24_000_000  # characters of different outputs that are kept
ROWS = 400  # rows that are kept with their prompts


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
        self._know(np.array(hashes, np.uint64))
        self._keep(window, hashes)

    def take(self, kept: Distinct, hashes: npt.NDArray[np.uint64]) -> None:
        """Go on behind another sample, of which ``kept`` and the ``hashes`` (D,) of all are left.

        Its threshold is no lower than that of both together.
        """
        self._know(hashes)
        window = dict(zip(kept.texts, kept.weights.tolist(), strict=True))
        self._keep(window, [_hash(text) for text in window])

    def _know(self, hashes: npt.NDArray[np.uint64]) -> None:
        self.recent.append(hashes)
        if sum(map(len, self.recent)) > len(self.hashes) // 4:  # each costs as much as all hashes
            self._unite()

    def _keep(self, window: dict[str, int], hashes: list[int]) -> None:
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
    def distinct(self) -> npt.NDArray[np.uint64]:
        """The hashes (D,) of all different outputs, ascending."""
        self._unite()
        return self.hashes

    def _unite(self) -> None:
        self.hashes = np.unique(np.concatenate([self.hashes, *self.recent]))
        self.recent = []

    def finish(self) -> Distinct:
        """Return those that were kept."""
        weights = np.array([count for _, count in self.kept.values()], np.int64)
        return Distinct(list(self.kept), weights)


@dataclass(frozen=True)
class SomeRows:
    """Prompts and outputs of rows in random order: the first k are a sample for any k."""

    prompts: list[str]
    outputs: list[str]


class RowSample:
    """Keeps the ROWS rows whose offsets have the smallest hashes; only they need their prompts."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self.kept: list[tuple[int, str, str]] = []
        self.below = np.uint64(2**64 - 1)

    def add(self, rows: Rows) -> None:
        """Take the next rows of the split."""
        hashes = _mix(np.array(rows.offsets, np.uint64))
        few = np.flatnonzero(hashes <= self.below).tolist()
        self.take([(int(hashes[i]), rows.prompt(i), rows.outputs[i]) for i in few])

    def take(self, kept: list[tuple[int, str, str]]) -> None:
        """Take rows with their hashes, as another sample kept them."""
        self.kept = sorted(self.kept + kept)[:ROWS]
        if len(self.kept) == ROWS:
            self.below = np.uint64(self.kept[-1][0])

    def finish(self) -> SomeRows:
        """Return those that were kept."""
        return SomeRows([row[1] for row in self.kept], [row[2] for row in self.kept])


def _mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return a permutation of the 64-bit numbers that looks random (SplitMix64)."""
    z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
