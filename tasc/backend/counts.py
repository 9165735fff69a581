"""N-gram counts: sorted runs on disk, merged into distributions at the end."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasc import _native
from tasc.backend.base import Int32, Int64, UInt8, refusals
from tasc.errors import InputError

WORD_BATCH = 1 << 19  # words per run, of which few enough differ for 16-bit ids
_OPEN_FILES = 256  # runs merged at a time; the usual limit of a process is 1,024 files


@dataclass(frozen=True)
class CountHistogram:
    """The distribution of the counts of n-grams of one length."""

    counts: Int64  # (M,) distinct counts, descending
    times: Int64  # (M,) number of n-grams with that count
    top_ids: Int32  # (K, n) the most frequent n-grams; ties by ascending ids
    top_counts: Int64  # (K,) and their counts

    @property
    def total(self) -> int:
        """Number of occurrences of all n-grams."""
        return int(self.counts @ self.times)

    @property
    def distinct(self) -> int:
        return int(self.times.sum())


@dataclass(frozen=True)
class Counts:
    """Merged counts: ``spectra[n - 1]`` for n-grams, ids (K,) ascending with counts (K,)."""

    spectra: tuple[CountHistogram, ...]
    ids: Int32
    counts: Int64

    def dense(self, size: int) -> Int64:
        """Return the count of every id below ``size``, (size,) int64."""
        counts = np.zeros(size, np.int64)
        counts[self.ids] = self.counts
        return counts


def write_counts(tokens: Int32, offsets: Int64, weights: Int64, path: Path) -> None:
    """Count the n-grams of 1 to 4 of tokens (T,) within samples, and save a sorted run.

    Sample s is tokens[offsets[s]:offsets[s + 1]] and counts weights[s] times. Raises InputError
    if an id is negative, the arrays do not match, or the file cannot be written.

    A run is a file of ascending n-grams of 4 lanes below 2^31: id + 1, or 0 after the sample's end.
    Two lanes form a little-endian word. The file has the second word of each n-gram, then the first
    word if it changed (bit 63 is set), then the count if it is not 1 (bit 31 is set).
    """
    tokens, offsets, weights = map(np.ascontiguousarray, (tokens, offsets, weights))
    with refusals(), _scratch():
        _native.write_counts(tokens, offsets, weights, str(path))


def merge_counts(paths: Sequence[Path], top: int = 0) -> Counts:
    """Add up saved runs, and list the ``top`` n-grams of each length.

    Memory does not depend on their size. If there are many, they are first joined into files next
    to the first one. Raises InputError if a file cannot be read.
    """
    with _scratch():
        spectra, ids, counts = _native.merge_runs(_joined([str(path) for path in paths]), top)
    histograms = (
        CountHistogram(values, times, top_ids.reshape(-1, n), top_counts)
        for n, (values, times, top_ids, top_counts) in enumerate(spectra, start=1)
    )
    return Counts(tuple(histograms), ids, counts)


def _joined(runs: list[str]) -> list[str]:
    """Join runs until there are few enough to merge; return the files that are left."""
    number = 0
    while len(runs) > _OPEN_FILES:
        name = f"{runs[0]}-joined-{number}"
        few = min(_OPEN_FILES, len(runs) - _OPEN_FILES + 1)  # joined runs are read twice
        _native.join_runs(runs[:few], name)
        runs, number = [*runs[few:], name], number + 1
    return runs


@dataclass(frozen=True)
class CountedWords:
    """The counted words of one part of a text."""

    letters: UInt8  # (B,) UTF-8 of the distinct words in order of appearance, which is their id
    ends: Int64  # (W,) end of each word in ``letters``
    first: Int32  # ids of the first 3 words, or of all if there are fewer
    last: Int32  # ids of the last 3 words, whose n-grams extend into the next part
    runs: list[Path]  # files of all other n-grams; empty for 3 words or fewer


class WordCounter:
    """Counts word n-grams of one continuous text; they may cross samples."""

    def __init__(self, prefix: Path, batch: int = WORD_BATCH) -> None:
        """Save a run per ``batch`` words, named ``prefix`` with a number."""
        self._counter = _native.WordCounter(str(prefix), batch)

    def add_texts(self, texts: Sequence[str]) -> int:
        """Add the words of each text, split by ``str.split``; return their number."""
        with _scratch():
            return self._counter.add_texts(list(texts))

    def add_words(self, words: Sequence[str]) -> int:
        with _scratch():
            self._counter.add_words(list(words))
        return len(words)

    def leave(self) -> CountedWords:
        """Return the counts, from which another counter can continue."""
        with _scratch():
            letters, ends, first, last, runs = self._counter.leave()
        return CountedWords(letters, ends, first, last, [Path(run) for run in runs])

    def take(self, counted: CountedWords) -> None:
        """Add the words that another counter counted.

        Raises InputError if they are invalid, or a run cannot be read or written.
        """
        c = counted
        with _scratch():
            self._counter.take(c.letters, c.ends, c.first, c.last, [str(run) for run in c.runs])

    def finish(self) -> list[Path]:
        """Return all runs, whose ids number words by appearance."""
        with _scratch():
            return [Path(path) for path in self._counter.finish()]

    def word(self, number: int) -> str:
        return self._counter.word(number).decode()


@contextmanager
def _scratch() -> Iterator[None]:
    """Turn failures of the kernels to read or write a file into an InputError."""
    try:
        yield
    except RuntimeError as error:
        raise InputError(
            f"{error}: free some space, or set TMPDIR to another folder for temporary files"
        ) from None
