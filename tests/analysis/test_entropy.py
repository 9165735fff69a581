"""Entropy and coverage: values known by hand, and properties."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasc.analysis.entropy import coverage, curve, normalised, renyi_bits, shannon_bits

COUNTS = st.lists(st.integers(1, 1000), min_size=1, max_size=40).map(
    lambda counts: np.array(counts, dtype=np.int64)
)
properties = settings(max_examples=60, deadline=None)


def test_values_known_by_hand():
    halves = np.array([4, 2, 1, 1])
    assert shannon_bits(halves) == pytest.approx(1.75)
    assert renyi_bits(halves) == pytest.approx(-math.log2(1 / 4 + 1 / 16 + 2 / 64))
    assert normalised(1.75, 4) == pytest.approx(0.875)
    assert renyi_bits(np.full(32, 7)) == shannon_bits(np.full(32, 7)) == pytest.approx(5)


def test_nothing_and_one_symbol_have_no_entropy():
    for counts in (np.zeros(0, dtype=np.int64), np.zeros(3, dtype=np.int64), np.array([9])):
        assert shannon_bits(counts) == 0
        assert renyi_bits(counts) == 0
    assert normalised(0.0, 1) == 0
    assert coverage(np.zeros(0, dtype=np.int64)) == 0
    assert curve(np.zeros(0, dtype=np.int64)) == ()


@properties
@given(COUNTS)
def test_shannon_is_the_sum_over_probabilities(counts):
    shares = counts / counts.sum()
    assert shannon_bits(counts) == pytest.approx(-(shares * np.log2(shares)).sum(), abs=1e-9)


@properties
@given(COUNTS)
def test_renyi_lies_between_the_entropies_of_order_1_and_infinity(counts):
    least = -math.log2(counts.max() / counts.sum())
    assert least - 1e-9 <= renyi_bits(counts) <= shannon_bits(counts) + 1e-9


@properties
@given(COUNTS)
@example(np.array([8, 1, 1]))  # one symbol reaches the share exactly
@example(np.full(5, 1))
def test_coverage_is_the_fewest_symbols_that_reach_the_share(counts):
    ranked = sorted(counts.tolist(), reverse=True)
    needed = coverage(counts)
    assert sum(ranked[:needed]) >= 0.8 * sum(ranked) - 1e-6
    assert sum(ranked[: needed - 1]) < 0.8 * sum(ranked)


@properties
@given(COUNTS)
def test_the_curve_rises_from_the_first_rank_to_all(counts):
    ranks, shares = zip(*curve(counts), strict=True)
    assert (ranks[0], ranks[-1]) == (1, len(counts))
    assert shares[0] == pytest.approx(counts.max() / counts.sum())
    assert shares[-1] == pytest.approx(1)
    assert list(ranks) == sorted(set(ranks))
    assert list(shares) == sorted(shares)


def test_the_curve_of_many_symbols_has_200_ranks_at_most():
    points = curve(np.arange(1, 5001))
    assert (points[0][0], points[-1][0]) == (1, 5000)
    assert 100 < len(points) <= 200
