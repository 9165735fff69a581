import json

import numpy as np
import pytest

from tasc.errors import InputError
from tasc.models import cost
from tasc.models.cost import SIZES, measure, measured_cost
from tasc.models.cost_model import CostModel
from tasc.models.folder.disk_cache import cache_folder
from tasc.models.target import Target
from tests.pico import build_model

CURVE = CostModel((1, 2, 4), (0.010, 0.010, 0.016))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tasc"


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


def test_every_size_is_measured_at_the_same_context(target):
    sizes, score = [], target.score

    def capture_hidden(last, trees):
        sizes.append((target.kv_cache.length, len(trees[0][0]) + 1))
        return score(last, trees)

    target.score = capture_hidden
    try:
        curve = measure(target, seconds=0.0)
    finally:
        target.score = score
    assert {size for _, size in sizes} == set(SIZES) == set(curve.sizes)
    assert {length for length, _ in sizes} == {128} == {curve.context}
    assert (np.diff(curve.seconds) >= 0).all()
    each = np.array([turn.seconds for turn in curve.turns])
    assert len(each) == cost._LEAST_TURNS
    first = np.array(curve.seconds[:1])
    assert each[:, 0].min() <= first <= each[:, 0].max()  # a median of the turns


def test_a_model_with_few_positions_is_measured_with_what_it_has():
    target = Target(build_model("qwen2"))
    target.max_positions = 100
    assert measure(target, seconds=0.0).context == 36
    target.max_positions = 64
    cost = measure(target, seconds=0.0)
    assert (cost.context, cost.sizes) == (32, (1, 2, 4, 8, 12, 16, 24, 32))


def test_a_curve_is_measured_once_for_a_model_and_again_for_another(target, cache, monkeypatch):
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
    assert sorted({p.suffix for p in cache.iterdir()}) == [".json"], "a temporary file was left"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sizes": [1, 2], "seconds": [2, 1]}', "\x00"])
def test_a_damaged_file_is_measured_again(target, cache, monkeypatch, text):
    monkeypatch.setattr(cost, "measure", lambda _: CURVE)
    measured_cost(target)
    (file,) = cache.iterdir()
    file.write_text(text)
    assert measured_cost(target) == CURVE
    assert json.loads(file.read_text())["sizes"] == [1, 2, 4]


def test_a_folder_that_cannot_be_written_costs_only_the_caching(target, cache, monkeypatch):
    monkeypatch.setattr(cost, "measure", lambda _: CURVE)
    cache.write_text("")
    assert measured_cost(target) == CURVE


def test_the_cache_lies_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "tasc"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder().parts[-2:] == (".cache", "tasc")
