"""What n-gram counts are: sorted runs on disk while counting, distributions in the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

RUN_LENGTH = 4  # longest n-gram that is counted
WORD_BATCH = 1 << 19  # words of a run: few enough that 16 bits tell them apart, mostly
# A run is a file of ascending n-grams of 4 lanes: id + 1, 0 beyond the sample's end, two lanes to a
# little-endian word. Of each stands the second word; the first follows it where it is another than
# before, then the count where it is not 1. Lanes are below 2^31, so the second word can say so.
NEW_HEAD, COUNTED = 1 << 63, 1 << 31
LARGEST_ID = 2**31 - 2


@dataclass(frozen=True)
class CountHistogram:
    """The distribution of n-grams of one length: how many of them occur how often.

    Attributes:
        counts: (M,) different counts, descending.
        times: (M,) how many n-grams have that count.
        top_ids: (K, n) the most frequent n-grams; ties by ascending ids.
        top_counts: (K,) and their counts.
    """

    counts: Int64
    times: Int64
    top_ids: Int32
    top_counts: Int64

    @property
    def total(self) -> int:
        """Occurrences of all n-grams."""
        return int(self.counts @ self.times)

    @property
    def distinct(self) -> int:
        """Different n-grams."""
        return int(self.times.sum())


@dataclass(frozen=True)
class Counts:
    """All that was counted: ``spectra[n - 1]`` for n-grams, ids (K,) ascending with counts (K,)."""

    spectra: tuple[CountHistogram, ...]
    ids: Int32
    counts: Int64

    def dense(self, size: int) -> Int64:
        """Return the count of every id below ``size``, (size,) int64."""
        counts = np.zeros(size, np.int64)
        counts[self.ids] = self.counts
        return counts


class WordCounter(Protocol):
    """Word n-grams of one endless text, which cross the borders of samples."""

    def add_texts(self, texts: Sequence[str]) -> int:
        """Add the words of each text, as ``str.split`` finds them; return how many there were."""

    def add_words(self, words: Sequence[str]) -> int:
        """Add words as they are."""

    def finish(self) -> list[Path]:
        """Return the runs, once everything was added. Their ids number words by appearance."""

    def word(self, number: int) -> str:
        """Return the word of an id."""
