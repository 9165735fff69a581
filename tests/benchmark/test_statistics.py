"""Statistics with known answers."""

from math import comb

import numpy as np
import pytest
from scipy.sparse import csr_array

from tasc.benchmark.metrics.metric import f1, share
from tasc.benchmark.paired.statistics import FEWEST, Bootstrap, mcnemar


def each(values):
    """Return counts (N, 2) whose share is the mean of ``values``."""
    return np.stack([values, np.ones(len(values))], axis=-1)


@pytest.mark.parametrize(
    ("only_first", "only_second", "p_value"),
    [
        (0, 0, 1.0),
        (3, 3, 1.0),
        (0, 5, 2 / 2**5),
        (1, 9, 2 * (1 + 10) / 2**10),
        (9, 1, 2 * (1 + 10) / 2**10),
        (2, 8, 2 * (1 + 10 + 45) / 2**10),
        (9, 41, 2 * sum(comb(50, k) for k in range(10)) / 2**50),
    ],
)
def test_mcnemar_is_a_binomial_of_the_discordant_samples(only_first, only_second, p_value):
    assert mcnemar(only_first, only_second) == pytest.approx(p_value)


def differences(rng):
    """Return paired costs that differ by 0.3, and are skewed as the difficulty of samples is."""
    hard = rng.exponential(5, 80)
    return hard + rng.exponential(1, 80) + 0.3, hard + rng.exponential(1, 80)


def ratios(rng):
    hard = rng.gamma(4, 5, 80)
    return 2 * hard * rng.lognormal(0, 0.1, 80), hard * rng.lognormal(0, 0.1, 80)


@pytest.mark.parametrize(("drawn", "truth"), [(differences, 0.3), (ratios, 2)])
def test_an_interval_covers_the_truth_about_as_often_as_it_says(drawn, truth):
    """95 % intervals of 300 data sets of 80 samples."""
    rng, held, bootstrap, times = np.random.default_rng(1), 0, Bootstrap(80), 300
    for _ in range(times):
        own, other = map(each, drawn(rng))
        if drawn is differences:
            low, high = bootstrap.difference(share, own, other)[1]
        else:
            low, high = bootstrap.ratio(other, own)[1]
        held += low <= truth <= high
    assert 0.91 <= held / times <= 0.98


def test_pairing_takes_out_what_makes_a_sample_hard():
    rng = np.random.default_rng(0)
    hard = rng.exponential(50, 200)
    own, other = (each(hard + noise) for noise in rng.normal(0, 1, (2, 200)))
    low, high = Bootstrap(200).difference(share, own, other)[1]
    assert high - low < 0.5  # unpaired it would be about 20


def test_resampled_sums_of_a_ratio_of_sums_are_those_of_the_samples_drawn():
    counts = np.array([[1.0, 2, 1], [0, 1, 3]] * 10)
    bootstrap = Bootstrap(20, resamples=3, seed=7)
    rng = np.random.default_rng(7)
    for sums in bootstrap.values(lambda sums: sums, counts):
        drawn = counts[rng.integers(20, size=20)]
        assert sums.tolist() == drawn.sum(0).tolist()
        assert f1(sums) == f1(drawn.sum(0))


def test_an_interval_widens_with_the_confidence_and_holds_what_was_seen():
    counts = each(np.arange(50.0))
    bootstrap = Bootstrap(50)
    seen, narrow = bootstrap.difference(share, counts, counts[::-1] * [0.9, 1], 0.5)
    wide = bootstrap.difference(share, counts, counts[::-1] * [0.9, 1], 0.99)[1]
    assert wide[0] < narrow[0] < seen < narrow[1] < wide[1]


def test_too_few_samples_have_no_interval():
    for samples, there in ((FEWEST - 1, False), (FEWEST, True)):
        counts = np.ones((samples, 2))
        difference, interval = Bootstrap(samples).difference(share, counts, counts)
        assert (difference, interval is not None) == (0, there)


def test_sparse_counts_give_what_dense_ones_give():
    rng = np.random.default_rng(0)
    counts, others = rng.integers(3, size=(2, 300, 4)).astype(float)
    bootstrap = Bootstrap(300, resamples=600)
    dense = bootstrap.difference(share, counts, others)
    assert bootstrap.difference(share, csr_array(counts), csr_array(others)) == dense
