import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasc.models.cost_model import DOUBT, STALE, CostModel

CURVE = CostModel((1, 64), (0.010, 0.073))  # 1 ms per token, and 9
SIZES = np.arange(1, 65)


def new():
    return CostModel(CURVE.sizes, CURVE.seconds)


def learnt(*forwards):
    cost = new()
    for tokens, seconds in forwards:
        cost.record(tokens, seconds)
    return cost


def test_without_forwards_it_is_the_curve():
    assert new().at(SIZES).tolist() == CURVE.at(SIZES).tolist()


def test_one_forward_tells_that_a_size_is_cheaper():
    cost = learnt((8, 0.5 * 0.017))
    assert cost.at(np.array([8]))[0] == pytest.approx(0.5 * 0.017)


def test_it_takes_two_to_tell_that_a_size_is_dearer():
    assert learnt((8, 5.0)).at(np.array([8]))[0] == pytest.approx(0.017)
    cost = learnt((8, 0.034), (8, 0.034))
    assert cost.at(np.array([8]))[0] == pytest.approx(0.034)


def test_a_size_corrects_its_neighbours_until_they_are_known():
    cost = learnt((8, 0.5 * 0.017))
    assert cost.at(np.array([16]))[0] == pytest.approx(0.5 * 0.025)
    cost.record(16, 0.025)
    cost.record(16, 0.025)
    assert cost.at(np.array([8, 16])).tolist() == pytest.approx([0.5 * 0.017, 0.025])


def test_what_was_measured_counts_where_it_contradicts_what_lies_between():
    # T(1) is found to be longer: what lies between it and 8 must not lift T(8).
    cost = learnt((8, 0.017), (1, 0.016), (1, 0.016))
    assert cost.at(SIZES)[7] == pytest.approx(0.017, rel=0.01)


def test_old_forwards_are_forgotten():
    cost = learnt(*[(8, 0.034)] * 20, *[(8, 0.017)] * 3)
    assert cost.at(np.array([8]))[0] == pytest.approx(0.017)


def test_what_is_hoped_for_ends_where_it_is_known():
    cost = learnt((4, 0.013), (1, 0.010))
    hoped = cost.optimistic(SIZES)
    assert hoped[0] == pytest.approx(0.010)
    assert hoped[1] == pytest.approx(0.010), "not less than the first"
    assert hoped[3] == pytest.approx(0.013), "known"
    assert hoped[15] == pytest.approx(0.013), "not less than what is known of smaller ones"
    assert hoped[63] == pytest.approx(0.073 / DOUBT)


def test_a_size_is_unknown_again_after_a_while():
    cost = learnt((4, 0.013))
    assert cost.is_known(4)
    for _ in range(STALE):
        cost.record(1, 0.010)
    assert not cost.is_known(4)


def test_a_clock_that_stands_still_says_nothing():
    cost = new()
    assert not cost.record(4, 0.0)
    assert cost.at(SIZES).tolist() == CURVE.at(SIZES).tolist()


forwards = st.lists(st.tuples(st.integers(1, 64), st.floats(1e-4, 1.0)), min_size=1, max_size=40)


@given(forwards)
def test_times_never_fall_and_hope_is_never_above_them(seen):
    cost = learnt(*seen)
    times, hoped = cost.at(SIZES), cost.optimistic(SIZES)
    assert (np.diff(times) >= 0).all()
    assert (np.diff(hoped) >= 0).all()
    assert (times > 0).all()
    assert (hoped <= times * (1 + 1e-9)).all()


@given(st.integers(1, 64), st.floats(0.3, 3.0))
def test_enough_forwards_of_a_size_tell_its_time(tokens, factor):
    seconds = factor * float(CURVE.at(tokens))
    cost = learnt(*[(tokens, seconds)] * 9)
    assert cost.at(np.array([tokens]))[0] == pytest.approx(seconds, rel=0.05)
