"""Counting n-grams of words and of tokens, and the numbers that describe each distribution."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from tasc.analysis.entropy import (
    Counts,
    coverage,
    curve,
    normalised,
    renyi_bits,
    shannon_bits,
    typical_set,
)

Ids = npt.NDArray[np.int64]
_LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class NgramStats:
    """The empirical distribution of n-grams.

    Attributes:
        n: length of the n-grams.
        total: occurrences.
        distinct: different n-grams.
        entropy_bits: Shannon entropy.
        normalised: entropy over its maximum, n · log2(symbols).
        renyi2_bits: Rényi entropy of order 2.
        typical_set: 2 to the entropy.
        n80: how many of the most frequent n-grams first reach 80 % of all occurrences.
        curve: cumulative distribution, (rank, share) at up to 200 ranks.
    """

    n: int
    total: int
    distinct: int
    entropy_bits: float
    normalised: float
    renyi2_bits: float
    typical_set: float
    n80: int
    curve: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class WordStats:
    """Words of the inputs or outputs of a split, all samples in one stream (Table 1)."""

    samples: int
    words: int
    distinct_words: int
    words_per_sample: float
    ngrams: tuple[NgramStats, ...]  # n = 1, 2, …

    @property
    def bigrams(self) -> NgramStats:
        """The row of Table 1."""
        return self.ngrams[1]


def describe(counts: Counts, n: int, symbols: int) -> NgramStats:
    """Describe counts (K,) int64 of n-grams over ``symbols`` different symbols."""
    entropy = shannon_bits(counts)
    return NgramStats(
        n=n,
        total=int(counts.sum()),
        distinct=len(counts),
        entropy_bits=entropy,
        normalised=normalised(entropy, symbols) / n,
        renyi2_bits=renyi_bits(counts),
        typical_set=typical_set(entropy),
        n80=coverage(counts),
        curve=curve(counts),
    )


def word_stats(samples: Iterable[Sequence[str]], n_max: int = 4) -> WordStats:
    """Describe the word n-grams of the samples, n = 1 to n_max (2 at least).

    Case is kept and n-grams cross sample borders: this is how Table 1's numbers come out.
    """
    ids, lengths = intern(samples)
    distinct = int(ids.max()) + 1 if len(ids) else 0
    rows = [
        describe(_counts(ngram_codes(ids, n)), n, distinct) for n in range(1, max(n_max, 2) + 1)
    ]
    return WordStats(
        samples=len(lengths),
        words=len(ids),
        distinct_words=distinct,
        words_per_sample=len(ids) / max(len(lengths), 1),
        ngrams=tuple(rows),
    )


def intern(samples: Iterable[Sequence[str]]) -> tuple[Ids, list[int]]:
    """Number the words in order of appearance.

    Returns:
        (N,) int64, the words of all samples one after the other, and the samples' lengths.
    """
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    lengths: list[int] = []

    def counted() -> Iterable[Sequence[str]]:
        for sample in samples:
            lengths.append(len(sample))
            yield sample

    words = chain.from_iterable(counted())
    return np.fromiter(map(numbers.__getitem__, words), dtype=np.int64), lengths


def ngram_codes(ids: Ids, n: int) -> Ids:
    """Return one number for the n-gram that starts at each place, (max(N - n + 1, 0),) int64.

    Equal n-grams of one call have equal codes; the codes mean nothing else.
    """
    if len(ids) < n:
        return np.zeros(0, dtype=np.int64)
    size = int(ids.max()) + 1
    codes, span = ids.astype(np.int64), size
    for length in range(2, n + 1):
        if span > _LARGEST // size:  # renumber what occurs, so that the next product fits
            held, codes = np.unique(codes, return_inverse=True)
            span = len(held)
        codes = codes[:-1] * size + ids[length - 1 :]
        span *= size
    return codes


def _counts(codes: Ids) -> Counts:
    return np.unique(codes, return_counts=True)[1].astype(np.int64)
