"""Entropy and coverage of an empirical distribution, given as counts (K,) int64.

Entropies are in bits. Sources: Tsur et al., section 3.1 (typical set, coverage), appendix D
(normalised entropy), appendix E (Rényi entropy).
"""

import math

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]

CURVE_POINTS = 200


def shannon_bits(counts: Counts) -> float:
    """Return -Σ p log2 p; 0 for no counts at all."""
    total = counts.sum(dtype=np.float64)
    if not total:
        return 0.0
    held = counts[counts > 0].astype(np.float64)
    # log2(total) - Σ c log2 c / total: the same sum without forming p
    return max(0.0, float(np.log2(total) - (held @ np.log2(held)) / total))


def renyi_bits(counts: Counts, alpha: float = 2.0) -> float:
    """Return H_α = log2(Σ p^α) / (1 - α), appendix E; α = 1 is Shannon's.

    Raises:
        ValueError: α is negative.
    """
    if alpha < 0:
        raise ValueError(f"the order of a Rényi entropy is 0 or more, got {alpha}")
    if alpha == 1:
        return shannon_bits(counts)
    held = counts[counts > 0].astype(np.float64)
    if not len(held):
        return 0.0
    power = np.sum((held / held.sum()) ** alpha)
    return max(0.0, float(np.log2(power) / (1 - alpha)))


def normalised(entropy_bits: float, symbols: int) -> float:
    """Return the entropy as a share of the highest one possible, log2(symbols), appendix D."""
    return entropy_bits / math.log2(symbols) if symbols > 1 else 0.0


def typical_set(entropy_bits: float) -> float:
    """Return the size of the typical set, 2^H: equation 2 with the logarithm to base 2."""
    return float(2.0**entropy_bits)


def coverage(counts: Counts, share: float = 0.8) -> int:
    """Return how many of the most frequent symbols first reach ``share`` of all occurrences."""
    sums = np.cumsum(np.sort(counts)[::-1])
    if not len(sums) or not sums[-1]:
        return 0
    # occurrences are whole: round up, but not for the last bit of share * total
    needed = math.ceil(share * int(sums[-1]) - 1e-6)
    return int(np.searchsorted(sums, needed)) + 1


def curve(counts: Counts, points: int = CURVE_POINTS) -> tuple[tuple[int, float], ...]:
    """Return the cumulative distribution by rank as (rank, share of occurrences).

    At most ``points`` ranks, spaced evenly on a logarithmic scale, from 1 to the last.
    """
    sums = np.cumsum(np.sort(counts)[::-1])
    if not len(sums) or not sums[-1]:
        return ()
    ranks = np.unique(np.geomspace(1, len(sums), num=points).round().astype(np.int64))
    shares = sums[ranks - 1] / sums[-1]
    return tuple(zip(ranks.tolist(), shares.tolist(), strict=True))
