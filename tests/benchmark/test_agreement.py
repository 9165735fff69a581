"""Rank correlation and direction between H_2 and runtime (appendix E)."""

import pytest

from tasc.benchmark.pages.bench import render
from tasc.benchmark.predict import agreement
from tasc.benchmark.results.prediction import EntropyPoint, Prediction
from tests.benches import make_cell, make_results


def sequence(*points):
    return [EntropyPoint(budget=m, h2=h2, runtime=runtime) for m, h2, runtime in points]


def test_perfect_prediction_is_minus_one_and_always_the_right_direction():
    found = agreement("ar", sequence((500, 6, 2), (0, 4, 9), (250, 5, 5)))
    assert found.tau == pytest.approx(-1)
    assert (found.directional_rate, found.rises) == (1, 2)


def test_one_wrong_pair_of_six_gives_tau_of_minus_two_thirds():
    found = agreement("ar", sequence((0, 1, 40), (1, 2, 30), (2, 3, 10), (3, 4, 20)))
    assert found.tau == pytest.approx(-2 / 3)
    assert found.directional_rate == pytest.approx(2 / 3)


def test_a_page_shows_no_rank_correlation_of_fewer_than_four_points():
    points = sequence((0, 1, 40), (1, 2, 30), (2, 3, 20), (3, 4, 10))
    pages = []
    for count in (3, 4):
        prediction = Prediction(cells=(), entropy=agreement("ar", points[:count]))
        results = make_results(make_cell()).model_copy(update={"prediction": prediction})
        pages.append(render(results))
    assert ["−1 is a perfect prediction" in page for page in pages] == [False, True]
    assert "too few for a rank correlation" in pages[0]


def test_steps_where_the_entropy_falls_do_not_count():
    found = agreement("ar", sequence((0, 2, 9), (1, 1, 8), (2, 3, 7)))
    assert (found.directional_rate, found.rises) == (1, 1)
    assert agreement("ar", sequence((0, 2, 9), (1, 1, 8))).directional_rate is None


def test_equal_values_have_no_correlation():
    found = agreement("ar", sequence((0, 1, 5), (1, 2, 5)))
    assert found.tau is None
    assert found.directional_rate == 0
