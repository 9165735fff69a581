"""Several trainings of one model."""

import numpy as np
import pytest

from tasc.benchmark.pages.bench import render
from tasc.benchmark.paired.seeds import welch
from tests.benches import make_results, said

REFERENCES = tuple(f"text {i}" for i in range(20))


def model(name, right, ms):
    texts = [text if i < right else "no" for i, text in enumerate(REFERENCES)]
    return said(name, texts, [ms] * 20)


@pytest.fixture
def results():
    rights = {"base#1": 10, "base#2": 12, "base#3": 14, "ft#a": 15, "ft#b": 17, "alone": 20}
    cells = [model(name, right, i + 1.0) for i, (name, right) in enumerate(rights.items())]
    return make_results(*cells, references=REFERENCES)


def test_seeds_are_one_row_with_their_spread(results):
    base, tuned = results.seeds
    assert (base.model, base.models) == ("base", ("base#1", "base#2", "base#3"))
    assert base.quality["exact_match"].mean == pytest.approx(0.6)
    assert base.quality["exact_match"].sd == pytest.approx(0.1)
    assert (base.ms_per_sample.mean, base.ms_per_sample.sd) == (2, 1)
    assert tuned.speedup.values == (1 / 4, 1 / 5)


def test_seeds_of_one_model_are_no_pair_of_models(results):
    names = {(pair.model, pair.against) for pair in results.pairs}
    assert len(names) == 15 - 3 - 1
    assert ("base#2", "base#1") not in names


def test_the_difference_of_trainings_has_the_interval_of_welch(results):
    (pair,) = results.seeds_pairs
    assert (pair.model, pair.against) == ("ft", "base")
    seen = pair.quality["exact_match"]
    assert seen.difference == pytest.approx(0.8 - 0.6)
    from scipy.stats import ttest_ind

    expected = ttest_ind([0.75, 0.85], [0.5, 0.6, 0.7], equal_var=False).confidence_interval()
    assert seen.interval == pytest.approx((expected.low, expected.high))
    assert seen.interval[0] < 0 < seen.interval[1]  # a few seeds do not tell
    assert welch([1, 1], [2, 2]) is None


def test_an_interval_over_seeds_covers_the_truth_about_as_often_as_it_says():
    rng, held, times = np.random.default_rng(0), 0, 1000
    for _ in range(times):
        low, high = welch(rng.normal(1, 1, 3).tolist(), rng.normal(0, 2, 4).tolist())
        held += low <= 1 <= high
    assert 0.93 <= held / times <= 0.975


def test_the_page_shows_them(results):
    page = render(results)
    assert "<td>0.600 ± 0.100</td>" in page
    assert "ft against base: Exact match +0.200 (95 % " in page


def test_a_name_with_a_number_sign_is_no_seed():
    results = make_results(*(model(f"C#-{end}", 9, 1.0) for end in "ab"), references=REFERENCES)
    assert (len(results.pairs), results.seeds) == (1, ())
