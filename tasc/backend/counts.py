"""N-gram counts: sorted runs on disk while counting, distributions in the end."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasc import _native
from tasc.backend.base import Int32, Int64, UInt8, check_weighted
from tasc.errors import InputError

WORD_BATCH = 1 << 19  # words of a run: few enough that 16 bits tell them apart, mostly
_OPEN_FILES = 256  # runs merged at a time; two merges stay below the usual limit of 1,024


@dataclass(frozen=True)
class CountHistogram:
    """The distribution of n-grams of one length: how many of them occur how often."""

    counts: Int64  # (M,) different counts, descending
    times: Int64  # (M,) how many n-grams have that count
    top_ids: Int32  # (K, n) the most frequent n-grams; ties by ascending ids
    top_counts: Int64  # (K,) and their counts

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


def write_counts(tokens: Int32, offsets: Int64, weights: Int64, path: Path) -> None:
    """Count the n-grams of 1 to 4 of tokens (T,) within samples, and save a sorted run.

    Sample s is tokens[offsets[s]:offsets[s + 1]] and counts weights[s] times. Raises InputError
    when an id is negative, the arrays do not fit together, or the file cannot be written.

    A run is a file of ascending n-grams of 4 lanes: id + 1, 0 beyond the sample's end, two lanes to
    a little-endian word. Of each stands the second word; the first follows it where it is another
    than before (bit 63), then the count where it is not 1 (bit 31): lanes are below 2^31.
    """
    check_weighted(tokens, offsets, weights)
    with _scratch():
        _native.write_counts(
            np.ascontiguousarray(tokens),
            np.ascontiguousarray(offsets),
            np.ascontiguousarray(weights),
            str(path),
        )


def merge_counts(paths: Sequence[Path], top: int = 0) -> Counts:
    """Add up saved runs, whoever wrote them, and keep the ``top`` n-grams of each length.

    Memory does not depend on their size; runs too many are first joined, beside the first of them.
    Raises InputError when a file cannot be read.
    """
    left = [str(path) for path in paths]
    with _scratch():
        joined = 0
        while len(left) > _OPEN_FILES:
            name = f"{left[0]}-joined-{joined}"
            few = min(_OPEN_FILES, len(left) - _OPEN_FILES + 1)  # what is joined is read twice
            _native.join_runs(left[:few], name)
            left, joined = [*left[few:], name], joined + 1
        spectra, ids, counts = _native.merge_runs(left, top)
    return Counts(
        tuple(
            CountHistogram(values, times, top_ids.reshape(-1, n), top_counts)
            for n, (values, times, top_ids, top_counts) in enumerate(spectra, start=1)
        ),
        ids,
        counts,
    )


@dataclass(frozen=True)
class CountedWords:
    """The words of one part of a text, counted by themselves."""

    # (B,) UTF-8 of all different words, end to end, by appearance: ids are their order.
    letters: UInt8
    ends: Int64  # (W,) where each ends there
    first: Int32  # ids of the first 3 words, or of all there are
    last: Int32  # likewise of the last ones; the n-grams that begin there need what follows
    runs: list[Path]  # files of all other n-grams; none where there are 3 words or fewer


class WordCounter:
    """Word n-grams of one endless text, which cross the borders of samples."""

    def __init__(self, prefix: Path, batch: int = WORD_BATCH) -> None:
        """Save a run for every ``batch`` words: ``prefix`` with a number appended."""
        self._counter = _native.WordCounter(str(prefix), batch)

    def add_texts(self, texts: Sequence[str]) -> int:
        """Add the words of each text, as ``str.split`` finds them; return how many there were."""
        with _scratch():
            return self._counter.add_texts(list(texts))

    def add_words(self, words: Sequence[str]) -> int:
        """Add words as they are."""
        with _scratch():
            self._counter.add_words(list(words))
        return len(words)

    def leave(self) -> CountedWords:
        """Return what was counted, for another counter to go on behind these words."""
        with _scratch():
            letters, ends, first, last, runs = self._counter.leave()
        return CountedWords(letters, ends, first, last, [Path(run) for run in runs])

    def take(self, counted: CountedWords) -> None:
        """Go on behind what another counter left, as if its words had been added here.

        Raises InputError when they are no such words, or a run cannot be read or written.
        """
        c = counted
        with _scratch():
            self._counter.take(c.letters, c.ends, c.first, c.last, [str(run) for run in c.runs])

    def finish(self) -> list[Path]:
        """Return the runs, once everything was added. Their ids number words by appearance."""
        with _scratch():
            return [Path(path) for path in self._counter.finish()]

    def word(self, number: int) -> str:
        """Return the word of an id."""
        return self._counter.word(number).decode()


@contextmanager
def _scratch() -> Iterator[None]:
    """Say what can be done about a file that the kernels could not write or read."""
    try:
        yield
    except RuntimeError as error:
        raise InputError(
            f"{error}: make room, or name another scratch folder with TMPDIR"
        ) from None
