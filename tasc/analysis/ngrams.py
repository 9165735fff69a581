"""Statistics of a distribution of n-grams of words or tokens."""

from dataclasses import dataclass

from tasc.analysis.entropy import (
    coverage,
    covered,
    curve,
    normalised,
    renyi_bits,
    shannon_bits,
    typical_set,
)
from tasc.backend import CountHistogram


@dataclass(frozen=True)
class NgramStats:
    """The empirical distribution of n-grams."""

    n: int  # length of the n-grams
    total: int  # occurrences
    distinct: int  # different n-grams
    entropy_bits: float  # Shannon entropy
    normalised: float  # entropy over its maximum, n · log2(symbols)
    renyi2_bits: float  # Rényi entropy of order 2
    typical_set: float  # 2 to the entropy
    typical_share: float  # share of all occurrences covered by as many most frequent n-grams
    n80: int  # number of most frequent n-grams that cover 80 % of all occurrences
    # Cumulative distribution, (rank, share) at up to 200 ranks
    curve: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class WordStats:
    """Words of the inputs or outputs of a split, all samples in one stream (Table 1).

    Words keep their case and n-grams cross sample borders, which reproduces Table 1. ``top`` has
    the most frequent bigrams with their counts.
    """

    samples: int
    words: int
    distinct_words: int
    words_per_sample: float
    ngrams: tuple[NgramStats, ...]  # n = 1, 2, …
    top: tuple[tuple[str, int], ...] = ()

    @property
    def bigrams(self) -> NgramStats:
        """The row of Table 1."""
        return self.ngrams[1]


def describe(histogram: CountHistogram, n: int, symbols: int) -> NgramStats:
    """Describe the distribution of n-grams over ``symbols`` different symbols."""
    counts, times = histogram.counts, histogram.times
    entropy = shannon_bits(counts, times)
    typical = min(typical_set(entropy), float(histogram.distinct))
    return NgramStats(
        n=n,
        total=histogram.total,
        distinct=histogram.distinct,
        entropy_bits=entropy,
        normalised=normalised(entropy, symbols) / n,
        renyi2_bits=renyi_bits(counts, times=times),
        typical_set=typical_set(entropy),
        typical_share=float(covered(counts, typical, times)) if len(counts) else 0.0,
        n80=coverage(counts, times=times),
        curve=curve(counts, times=times),
    )
