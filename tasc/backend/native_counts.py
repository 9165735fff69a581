"""N-gram counting by the kernels: paths and arrays in, plain structures out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tasc import _native
from tasc.backend.counts import CountHistogram, Counts, Int32, Int64
from tasc.errors import InputError

_OPEN_FILES = 256  # runs merged at a time; two merges stay below the usual limit of 1,024


def write_counts(tokens: Int32, offsets: Int64, weights: Int64, path: Path) -> None:
    """See Backend.write_counts."""
    with _scratch():
        _native.write_counts(
            np.ascontiguousarray(tokens),
            np.ascontiguousarray(offsets),
            np.ascontiguousarray(weights),
            str(path),
        )


def merge_counts(paths: Sequence[Path], top: int) -> Counts:
    """See Backend.merge_counts. Runs too many are first joined, beside the first of them."""
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


class NativeWordCounter:
    """See WordCounter."""

    def __init__(self, prefix: Path, batch: int) -> None:
        """See Backend.word_counter."""
        self._counter = _native.WordCounter(str(prefix), batch)

    def add_texts(self, texts: Sequence[str]) -> int:
        """See WordCounter.add_texts."""
        with _scratch():
            return self._counter.add_texts(list(texts))

    def add_words(self, words: Sequence[str]) -> int:
        """See WordCounter.add_words."""
        with _scratch():
            self._counter.add_words(list(words))
        return len(words)

    def finish(self) -> list[Path]:
        """See WordCounter.finish."""
        with _scratch():
            return [Path(path) for path in self._counter.finish()]

    def word(self, number: int) -> str:
        """See WordCounter.word."""
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
