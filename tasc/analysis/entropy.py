"""Entropy and coverage of an empirical distribution.

The distribution is given as counts (K,) int64 or, in compressed form, as distinct counts (M,) and
the number of symbols with each count, ``times`` (M,) int64. Entropies are in bits. Sources: Tsur
et al., section 3.1 (typical set, coverage), appendix D (normalised entropy), appendix E (Rényi).
"""

import math

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

CURVE_POINTS = 200


def shannon_bits(counts: Counts, times: Counts | None = None) -> float:
    """Return -Σ p log2 p, or 0 without counts."""
    held, times = _held(counts, times)
    total = float(held @ times)
    if not total:
        return 0.0
    # log2(total) - Σ c log2 c / total: the same sum without forming p
    return max(0.0, float(np.log2(total) - (held * np.log2(held)) @ times / total))


def renyi_bits(counts: Counts, alpha: float = 2.0, times: Counts | None = None) -> float:
    """Return H_α = log2(Σ p^α) / (1 - α), appendix E; α = 1 is Shannon's.

    Raises ValueError if α is negative.
    """
    if alpha < 0:
        raise ValueError(f"the order of a Rényi entropy is 0 or more, got {alpha}")
    if alpha == 1:
        return shannon_bits(counts, times)
    held, times = _held(counts, times)
    if not len(held):
        return 0.0
    power = ((held / (held @ times)) ** alpha) @ times
    return max(0.0, float(np.log2(power) / (1 - alpha)))


def normalised(entropy_bits: float, symbols: int) -> float:
    """Return the entropy as a share of the highest one possible, log2(symbols), appendix D."""
    return entropy_bits / math.log2(symbols) if symbols > 1 else 0.0


def typical_set(entropy_bits: float) -> float:
    """Return the size of the typical set, 2^H: equation 2 with the logarithm to base 2."""
    return float(2.0**entropy_bits)


def coverage(counts: Counts, share: float = 0.8, times: Counts | None = None) -> int:
    """Return the number of most frequent symbols that cover ``share`` of all occurrences."""
    ranked, times = _ranked(counts, times)
    sums = np.cumsum(ranked * times)
    if not len(sums):
        return 0
    # occurrences are integers: round up, but ignore the rounding error of share * total
    needed = math.ceil(share * int(sums[-1]) - 1e-6)
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
    shares: Shares = np.interp(np.asarray(ranks), symbols, sums) / sums[-1]
    return shares


def curve(
    counts: Counts, points: int = CURVE_POINTS, times: Counts | None = None
) -> tuple[tuple[int, float], ...]:
    """Return the cumulative distribution by rank as (rank, share of occurrences).

    At most ``points`` ranks, spaced evenly on a logarithmic scale, from 1 to the last.
    """
    symbols = int(_held(counts, times)[1].sum())
    if not symbols:
        return ()
    ranks = np.unique(np.geomspace(1, symbols, num=points).round().astype(np.int64))
    shares = covered(counts, ranks, times)
    return tuple(zip(ranks.tolist(), shares.tolist(), strict=True))


def _held(counts: Counts, times: Counts | None) -> tuple[Shares, Counts]:
    """Return the counts above 0, as floats, and the number of symbols with each."""
    if times is None:
        times = np.ones(len(counts), np.int64)
    return counts[counts > 0].astype(np.float64), times[counts > 0]


def _ranked(counts: Counts, times: Counts | None) -> tuple[Counts, Counts]:
    """Return the distinct counts above 0, descending, and the number of symbols with each."""
    if times is None:
        counts, times = np.unique(counts, return_counts=True)
    order = np.argsort(-counts)
    order = order[counts[order] > 0]
    return counts[order], times[order].astype(np.int64)
