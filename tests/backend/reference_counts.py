"""N-gram counting as plainly as it can be said: the definition of what the kernels do."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from tasc.backend.counts import CountHistogram, Counts

LONGEST = 4  # n-gram that is counted


def count(samples: Iterable[tuple[Sequence[int], int]], top: int) -> Counts:
    """Count the n-grams of samples with their weights, and list ``top`` of each length."""
    grams: list[Counter[tuple[int, ...]]] = [Counter() for _ in range(LONGEST)]
    for tokens, weight in samples:
        for n, counts in enumerate(grams, start=1):
            for i in range(len(tokens) - n + 1):
                counts[tuple(tokens[i : i + n])] += weight
    known = sorted(grams[0].items())
    return Counts(
        tuple(_histogram(counts, n, top) for n, counts in enumerate(grams, start=1)),
        np.array([ids[0] for ids, _ in known], np.int32),
        np.array([count for _, count in known], np.int64),
    )


def count_words(words: Sequence[str], top: int) -> Counts:
    """Count the n-grams of words, which are numbered in order of appearance."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    return count([([numbers[word] for word in words], 1)], top)


def _histogram(counts: Counter[tuple[int, ...]], n: int, top: int) -> CountHistogram:
    often = sorted(Counter(counts.values()).items(), reverse=True)
    best = sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:top]
    return CountHistogram(
        np.array([count for count, _ in often], np.int64),
        np.array([times for _, times in often], np.int64),
        np.array([ids for ids, _ in best], np.int32).reshape(-1, n),
        np.array([count for _, count in best], np.int64),
    )
