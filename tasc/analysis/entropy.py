"""Entropy and coverage of an empirical distribution, and the statistics of n-grams.

The distribution is given as counts (K,) int64 or, in compressed form, as distinct counts (M,),
positive and descending, and the number of symbols with each count, ``times`` (M,) int64. Entropies
are in bits. Sources: Tsur et al., section 3.1 (typical set, coverage), appendix D (normalised
entropy), appendix E (Rényi).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasc.backend import CountHistogram

Counts = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

_COVERED = 0.8  # share of occurrences, of Table 1
_CURVE_POINTS = 200


def shannon_bits(counts: Counts, times: Counts | None = None) -> float:
    """Return -Σ p log2 p, or 0 without counts."""
    counts, times = _ranked(counts, times)
    if not len(counts):
        return 0.0
    total = float(counts @ times)
    # log2(total) - Σ c log2 c / total: the same sum without forming p
    return max(0.0, float(np.log2(total) - (counts * np.log2(counts)) @ times / total))


def renyi_bits(counts: Counts, times: Counts | None = None) -> float:
    """Return the Rényi entropy of order 2, -log2 Σ p², or 0 without counts (appendix E)."""
    counts, times = _ranked(counts, times)
    if not len(counts):
        return 0.0
    return max(0.0, -float(np.log2((counts / (counts @ times)) ** 2 @ times)))


def normalised(entropy_bits: float, symbols: int) -> float:
    """Return the entropy as a share of the highest one possible, log2(symbols), appendix D."""
    return entropy_bits / math.log2(symbols) if symbols > 1 else 0.0


def coverage(counts: Counts, times: Counts | None = None) -> int:
    """Return the number of most frequent symbols that cover 80 % of all occurrences."""
    ranked, times = _ranked(counts, times)
    sums = np.cumsum(ranked * times)
    if not len(sums):
        return 0
    # occurrences are integers: round up, but ignore the rounding error of the product
    needed = math.ceil(_COVERED * int(sums[-1]) - 1e-6)
    at = int(np.searchsorted(sums, needed))
    missing = needed - int(sums[at - 1] if at else 0)
    return int(times[:at].sum()) + -(-missing // int(ranked[at]))


def covered(counts: Counts, ranks: npt.ArrayLike, times: Counts | None = None) -> Shares:
    """Return the share of all occurrences covered by the ``ranks`` most frequent symbols, (R,).

    ``ranks`` (R,) lie between 0 and the number of symbols, which must be at least 1.
    """
    ranked, times = _ranked(counts, times)
    symbols = np.concatenate([[0], np.cumsum(times)])
    sums = np.concatenate([[0], np.cumsum(ranked * times)])
    return np.asarray(np.interp(np.asarray(ranks), symbols, sums) / sums[-1])


def curve(counts: Counts, times: Counts | None = None) -> tuple[tuple[int, float], ...]:
    """Return the cumulative distribution by rank as (rank, share of occurrences).

    At most 200 ranks, spaced evenly on a logarithmic scale, from 1 to the last.
    """
    counts, times = _ranked(counts, times)
    if not len(counts):
        return ()
    ranks = np.unique(np.geomspace(1, times.sum(), num=_CURVE_POINTS).round().astype(np.int64))
    shares = covered(counts, ranks, times)
    return tuple(zip(ranks.tolist(), shares.tolist(), strict=True))


def _ranked(counts: Counts, times: Counts | None) -> tuple[Counts, Counts]:
    if times is None:
        counts, times = np.unique(counts[counts > 0], return_counts=True)
        counts, times = counts[::-1], times[::-1]
    return counts, times


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
        return self.ngrams[1]


def describe(histogram: CountHistogram, n: int, symbols: int) -> NgramStats:
    """Describe the distribution of n-grams over ``symbols`` different symbols."""
    counts, times = histogram.counts, histogram.times
    entropy = shannon_bits(counts, times)
    typical = 2.0**entropy  # equation 2, with the logarithm to base 2
    ranks = min(typical, float(histogram.distinct))
    return NgramStats(
        n=n,
        total=histogram.total,
        distinct=histogram.distinct,
        entropy_bits=entropy,
        normalised=normalised(entropy, symbols) / n,
        renyi2_bits=renyi_bits(counts, times),
        typical_set=typical,
        typical_share=float(covered(counts, ranks, times)) if len(counts) else 0.0,
        n80=coverage(counts, times),
        curve=curve(counts, times),
    )
