"""N-gram counting as plainly as it can be said: the definition of what the kernels do."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from tasc.backend.base import Int32, Int64
from tasc.backend.counts import WORD_BATCH, CountedWords, CountHistogram, Counts

RUN_LENGTH = 4  # longest n-gram that is counted
NEW_HEAD, COUNTED = 1 << 63, 1 << 31

Lanes = tuple[int, int, int, int]  # id + 1; 0 beyond the sample's end


def write_counts(tokens: Int32, offsets: Int64, weights: Int64, path: Path) -> None:
    """Write the counts of all n-grams in samples, each with its weight, to a file."""
    counts: Counter[Lanes] = Counter()
    for weight, (begin, end) in zip(weights.tolist(), pairwise(offsets.tolist()), strict=True):
        for lanes in _positions(tokens[begin:end].tolist(), end - begin):
            counts[lanes] += weight
    _write(counts, path)


def merge_counts(paths: Sequence[Path], top: int = 0) -> Counts:
    """Add the counts of several files, and list the ``top`` n-grams of each length."""
    grams: list[Counter[tuple[int, ...]]] = [Counter() for _ in range(RUN_LENGTH)]
    for path in paths:
        for lanes, count in _read(path):
            for n in range(1, RUN_LENGTH + 1):
                if all(lanes[:n]):
                    grams[n - 1][tuple(lane - 1 for lane in lanes[:n])] += count
    known = sorted(grams[0].items())
    return Counts(
        tuple(_spectrum(counts, n, top) for n, counts in enumerate(grams, start=1)),
        np.array([ids[0] for ids, _ in known], np.int32),
        np.array([count for _, count in known], np.int64),
    )


class WordCounter:
    """Count the n-grams of words in a stream of texts."""

    def __init__(self, prefix: Path, batch: int = WORD_BATCH) -> None:
        """Write counts to ``prefix``; ``batch`` has no effect on the counts."""
        self._prefix, self._batch = prefix, batch
        self._numbers: dict[str, int] = {}
        self._words: list[int] = []

    def add_texts(self, texts: Sequence[str]) -> int:
        """Add the words of ``texts``, and return their number."""
        return sum(self.add_words(text.split()) for text in texts)

    def add_words(self, words: Sequence[str]) -> int:
        """Add ``words``, and return their number."""
        self._words += [self._numbers.setdefault(word, len(self._numbers)) for word in words]
        return len(words)

    def leave(self) -> CountedWords:
        """Return the state of a counter whose words continue in another counter."""
        letters = [word.encode() for word in self._numbers]
        open_words = self._words[-(RUN_LENGTH - 1) :]
        counted, runs = len(self._words) - len(open_words), []
        if counted:
            _write(Counter(_positions(self._words, counted)), self._prefix)
            runs = [self._prefix]
        return CountedWords(
            np.frombuffer(b"".join(letters), np.uint8),
            np.cumsum([len(word) for word in letters], dtype=np.int64),
            np.array(self._words[: RUN_LENGTH - 1], np.int32),
            np.array(open_words, np.int32),
            runs,
        )

    def finish(self) -> list[Path]:
        """Write the counts, and return the files that contain them."""
        _write(Counter(_positions(self._words, len(self._words))), self._prefix)
        return [self._prefix]

    def word(self, number: int) -> str:
        """Return the word with this number."""
        return list(self._numbers)[number]


def _positions(sample: list[int], positions: int) -> list[Lanes]:
    padded = [token + 1 for token in sample] + [0] * RUN_LENGTH
    return [(padded[i], padded[i + 1], padded[i + 2], padded[i + 3]) for i in range(positions)]


def _write(counts: Counter[Lanes], path: Path) -> None:
    words: list[int] = []
    before = 0
    for (first, second, third, fourth), count in sorted(counts.items()):
        head = first << 32 | second
        counted, new = (count != 1) * COUNTED, (head != before) * NEW_HEAD
        words.append(third << 32 | fourth | new | counted)
        words += [head] * bool(new) + [count] * bool(counted)
        before = head
    path.write_bytes(np.array(words, "<u8").tobytes())


def _read(path: Path) -> Iterator[tuple[Lanes, int]]:
    words, head = iter(np.fromfile(path, "<u8").tolist()), 0
    for word in words:
        head = next(words) if word & NEW_HEAD else head
        count = next(words) if word & COUNTED else 1
        tail = word & ~(NEW_HEAD | COUNTED)
        yield (head >> 32, head & 0xFFFFFFFF, tail >> 32, tail & 0xFFFFFFFF), count


def _spectrum(counts: Counter[tuple[int, ...]], n: int, top: int) -> CountHistogram:
    often = sorted(Counter(counts.values()).items(), reverse=True)
    best = sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:top]
    return CountHistogram(
        np.array([count for count, _ in often], np.int64),
        np.array([times for _, times in often], np.int64),
        np.array([ids for ids, _ in best], np.int32).reshape(-1, n),
        np.array([count for _, count in best], np.int64),
    )
