import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasc.errors import InputError
from tasc.files.cache import cache_folder
from tasc.models import cost
from tasc.models.cost import SIZES, measure, measured_cost
from tasc.models.cost_model import DOUBT, STALE, CostModel
from tasc.models.target import Target
from tests.pico import build_model

CURVE = CostModel((1, 2, 4), (0.010, 0.010, 0.016))
LINE = CostModel((1, 64), (0.010, 0.073))  # 1 ms per token, and 9
TOKENS = np.arange(1, 65)


def test_times_are_interpolated_and_continued_beyond_the_last_size():
    assert CURVE.at([1, 2, 3, 4, 6]).tolist() == pytest.approx([0.010, 0.010, 0.013, 0.016, 0.022])
    assert CURVE.at(3).shape == ()
    assert CostModel((1,), (0.5,)).at([1, 9]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("sizes", "seconds"),
    [
        ((1, 2), (0.2, 0.1)),
        ((1, 2), (0.1,)),
        ((2, 3), (0.1, 0.2)),
        ((), ()),
        ((1, 2), (0.1, float("nan"))),
        ((1,), (0.0,)),
    ],
)
def test_invalid_times_are_refused(sizes, seconds):
    with pytest.raises(InputError, match="cost model"):
        CostModel(sizes, seconds)


def test_every_size_is_measured_at_the_same_context(target, monkeypatch):
    sizes, score, now = [], target.score, 0.0
    monkeypatch.setattr(cost, "_timer", partial(cost._timer, clock=lambda: now))

    def noted(last, trees):
        nonlocal now
        sizes.append((target.kv_cache.length, len(trees[0][0]) + 1))
        seen = sum(size == sizes[-1] for size in sizes)
        now += sizes[-1][1] * (1, 3, 2)[seen % 3]  # a token takes from one to three seconds
        return score(last, trees)

    monkeypatch.setattr(target, "score", noted)
    curve = measure(target, seconds=0.0)
    assert {size for _, size in sizes} == set(SIZES) == set(curve.sizes)
    assert {length for length, _ in sizes} == {128} == {curve.context}
    assert curve.seconds == pytest.approx([2 * size for size in SIZES])  # a median of the turns
    assert len(curve.turns) == cost._LEAST_TURNS


def test_a_model_with_few_positions_is_measured_with_what_it_has():
    target = Target(build_model("qwen2"))
    target.max_positions = 100
    assert measure(target, seconds=0.0).context == 36
    target.max_positions = 64
    cost = measure(target, seconds=0.0)
    assert (cost.context, cost.sizes) == (32, (1, 2, 4, 8, 12, 16, 24, 32))


def test_a_curve_is_measured_once_for_a_model_and_again_for_another(target, own_cache, monkeypatch):
    calls = []
    monkeypatch.setattr(cost, "measure", lambda _: calls.append("") or CURVE)
    assert measured_cost(target) == CURVE
    assert measured_cost(Target(build_model("qwen2", seed=1))) == CURVE
    assert len(calls) == 1, "the weights' values do not change the cost"
    measured_cost(target, fresh=True)
    assert len(calls) == 2
    measured_cost(Target(build_model("qwen2", layers=1)))
    monkeypatch.setattr("tasc.models.cost.torch.get_num_threads", lambda: 77)
    measured_cost(target)
    assert len(calls) == 4
    assert sorted({p.suffix for p in own_cache.iterdir()}) == [".json"], "a temporary file was left"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sizes": [1, 2], "seconds": [2, 1]}', "\x00"])
def test_a_damaged_file_is_measured_again(target, own_cache, monkeypatch, text):
    monkeypatch.setattr(cost, "measure", lambda _: CURVE)
    measured_cost(target)
    (file,) = own_cache.iterdir()
    file.write_text(text)
    assert measured_cost(target) == CURVE
    assert json.loads(file.read_text())["sizes"] == [1, 2, 4]


def test_a_folder_that_cannot_be_written_costs_only_the_caching(target, own_cache, monkeypatch):
    calls = []
    monkeypatch.setattr(cost, "measure", lambda _: calls.append("") or CURVE)
    own_cache.write_text("")
    assert measured_cost(target) == measured_cost(target) == CURVE
    assert len(calls) == 1, "a process measures once"


def test_the_cache_lies_where_the_user_says(own_cache, monkeypatch):
    assert cache_folder() == own_cache
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder().parts[-2:] == (".cache", "tasc")


def learnt(*forwards):
    cost = CostModel(LINE.sizes, LINE.seconds)
    for tokens, seconds in forwards:
        cost.record(tokens, seconds)
    return cost


CHEAP = (8, 0.5 * 0.017)
# Forwards of (tokens, seconds), and the seconds that are then expected of 8 tokens.
FORWARDS = {
    "one tells that a size is cheaper": ([CHEAP], 0.5 * 0.017),
    "one does not tell that a size is dearer": ([(8, 5.0)], 0.017),
    "two tell that a size is dearer": ([(8, 0.034)] * 2, 0.034),
    "old ones are forgotten": ([(8, 0.034)] * 20 + [(8, 0.017)] * 3, 0.017),
}


@pytest.mark.parametrize("kind", FORWARDS)
def test_forwards_tell_the_time_of_their_size(kind):
    seen, expected = FORWARDS[kind]
    assert learnt(*seen).at(8) == pytest.approx(expected)


def test_a_size_corrects_its_neighbours_until_they_are_known():
    assert learnt(CHEAP).at(16) == pytest.approx(0.5 * 0.025)
    cost = learnt(CHEAP, (16, 0.025), (16, 0.025))
    assert cost.at([8, 16]).tolist() == pytest.approx([0.5 * 0.017, 0.025])


def test_what_was_measured_counts_where_it_contradicts_what_lies_between():
    # T(1) is found to be longer: what lies between it and 8 must not lift T(8).
    cost = learnt((8, 0.017), (1, 0.016), (1, 0.016))
    assert cost.at(8) == pytest.approx(0.017, rel=0.01)


def test_what_is_hoped_for_ends_where_it_is_known():
    cost = learnt((4, 0.013), (1, 0.010))
    # Of 2 not less than of 1, and of 16 not less than of 4, which are known.
    expected = [0.010, 0.010, 0.013, 0.013, 0.073 / DOUBT]
    assert cost.optimistic(TOKENS)[[0, 1, 3, 15, 63]].tolist() == pytest.approx(expected)


def test_a_size_is_unknown_again_after_a_while():
    cost = learnt((4, 0.013))
    assert cost.is_known(4)
    for _ in range(STALE):
        cost.record(1, 0.010)
    assert not cost.is_known(4)


def test_without_forwards_and_with_a_clock_that_stands_still_it_is_the_curve():
    cost = learnt()
    assert cost.at(TOKENS).tolist() == LINE.at(TOKENS).tolist()
    assert not cost.record(4, 0.0)
    assert cost.at(TOKENS).tolist() == LINE.at(TOKENS).tolist()


@given(st.lists(st.tuples(st.integers(1, 64), st.floats(1e-4, 1.0)), min_size=1, max_size=40))
def test_times_never_fall_and_hope_is_never_above_them(seen):
    cost = learnt(*seen)
    times, hoped = cost.at(TOKENS), cost.optimistic(TOKENS)
    assert (np.diff(times) >= 0).all()
    assert (np.diff(hoped) >= 0).all()
    assert (times > 0).all()
    assert (hoped <= times * (1 + 1e-9)).all()


@given(st.integers(1, 64), st.floats(0.3, 3.0))
def test_enough_forwards_of_a_size_tell_its_time(tokens, factor):
    seconds = factor * float(LINE.at(tokens))
    cost = learnt(*[(tokens, seconds)] * 9)
    assert cost.at(tokens) == pytest.approx(seconds, rel=0.05)
