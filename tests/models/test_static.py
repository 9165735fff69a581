"""Steps of static shape give what dynamic ones give, whatever stands beyond what counts."""

import contextlib
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.backend.tree import ancestor_bits, tree_inputs
from tasc.errors import UnavailableError
from tasc.models import static as module
from tasc.models.static import QUERIES, StaticTarget, tree_mask
from tasc.models.target import Target
from tasc.models.targets.fastest import target_for
from tests.pico import build_model, build_windowed

MODELS = {
    "plain": lambda: build_model("qwen2", vocabulary=64),
    "window": build_windowed,
    "window and softcap": lambda: build_model("gemma2", vocabulary=64, hidden=32),
}
NO_TREE = np.zeros(0, np.int32), np.zeros(0, np.int32)


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


def prefill(targets, prompt, room):
    for target in targets:
        target.prefill(np.asarray(prompt, np.int32), room)


def assert_same_step(targets, tree, path, atol=1e-4):
    """Both targets give the same rows for a tree, of which they keep a path."""
    first, second = (target.score([5], [tree])[0] for target in targets)
    assert first.shape == second.shape
    assert torch.allclose(first, second, atol=atol)
    for target in targets:
        target.keep([path])


def random_tree(rng, n):
    parents = np.array([rng.integers(-1, i) if i else -1 for i in range(n)], np.int32)
    return rng.integers(1, 64, n).astype(np.int32), parents


def a_path(parents, rng):
    path = []
    while len(children := np.flatnonzero(parents == (path[-1] if path else -1))):
        path.append(int(rng.choice(children)))
        if rng.random() < 0.3:
            break
    return path


@torch.inference_mode()
def test_rows_equal_those_of_dynamic_steps(model):
    rng = np.random.default_rng(0)
    static, dynamic = targets = StaticTarget(model, graphs=False), Target(model)
    buckets = set()
    for length in (230, 3, 40):  # the second sequence begins over what the first one left
        prefill(targets, rng.integers(1, 64, length), 280)
        if length == 3:
            for block in static.kv_cache.blocks.values():
                block[..., 3:, :] = 1e4
        for n in (0, 1, 2, 64, 7, 63, 70, 12, 0, 20):
            tree = random_tree(rng, n)
            assert_same_step(targets, tree, a_path(tree[1], rng), atol=2e-4)
            assert static.kv_cache.length == dynamic.kv_cache.length
        buckets |= set(static.steps)
    assert {keys for _, keys, _ in buckets} == {256, 512}
    assert {queries for queries, _, _ in buckets} == set(QUERIES) - {5}


@pytest.mark.parametrize("kind", ["qwen2", "gemma4_text", "deepseek_v2"])
def test_a_cache_that_grew_is_found_again(kind):
    model = build_model(kind)
    targets = StaticTarget(model, graphs=False), Target(model)
    for length in (4, 400):
        prefill(targets, np.arange(length) % 300 + 1, 8)
        assert_same_step(targets, NO_TREE, [])


def test_a_cache_that_moved_is_let_go():
    static = StaticTarget(build_model("qwen2"), graphs=False)
    caches = []
    for length in (4, 400):
        prefill([static], np.arange(length) % 300 + 1, 8)
        static.score([5], [NO_TREE])
        caches.append(weakref.ref(next(iter(static.kv_cache.blocks.values()))))
    gc.collect()
    assert [held() is None for held in caches] == [True, False]
    assert set(static.steps) == {(1, 512, False)}


@given(st.integers(0, 64), st.integers(0, 40), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_the_mask_is_that_of_the_tree(n, length, seed):
    _, parents = random_tree(np.random.default_rng(seed), n)
    bits, depths = ancestor_bits(parents)
    padded = np.zeros(QUERIES[-1], np.int64)
    padded[1 : n + 1] = bits[:, 0].view(np.int64) if n else 0
    positions = np.full(QUERIES[-1], length)
    positions[1 : n + 1] += depths + 1
    bits_, positions_ = torch.from_numpy(padded), torch.from_numpy(positions)
    args = (bits_, positions_, torch.tensor(length), 128)
    found = tree_mask(*args, distances=False)[: n + 1]
    seen, offsets = tree_inputs(parents)
    assert found[:, :length].all()
    assert not found[:, length + n + 1 :].any()
    assert np.array_equal(found[:, length : length + n + 1].numpy(), seen)
    back = tree_mask(*args, distances=True)[: n + 1]
    assert torch.equal(back >= 0, found)
    assert torch.equal(back[:, 0].long(), positions_[: n + 1])
    tree = back[:, length : length + n + 1].numpy()
    assert (tree == np.where(seen, offsets[:, None] - offsets[None], -1)).all()


def test_padding_sees_something():
    zeros = torch.zeros(5, dtype=torch.int64)
    mask = tree_mask(zeros, zeros, torch.tensor(0), 16, distances=False)
    assert mask.any(1).all(), "a query that sees nothing yields NaN, and writes it into the cache"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch about itself
def test_a_compiled_step_gives_the_same():
    model = build_model("qwen2", layers=1)
    targets = StaticTarget(model, graphs=False, compiled=True), Target(model)
    counters = torch._dynamo.utils.counters
    counters.clear()
    rng = np.random.default_rng(0)
    prefill(targets, np.arange(1, 9), 40)
    for n in (2, 1, 2):
        assert_same_step(targets, random_tree(rng, n), [0])
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


class FakeGraph:
    """Stands in for a CUDA graph: a replay does the captured work again, in the same memory."""

    captured = 0
    work: Callable[[], torch.Tensor]
    result: torch.Tensor

    def replay(self):
        with torch.inference_mode():
            self.result.copy_(self.work())


@pytest.fixture
def fake_cuda(monkeypatch):
    """Route capturing to FakeGraph, so that the code around it runs without a device."""

    class Stream:
        def __init__(self, device=None):
            pass

        def wait_stream(self, other):
            pass

    @contextlib.contextmanager
    def capture(graph, pool):
        assert pool == "pool"
        FakeGraph.captured += 1
        yield

    own = module.Step._capture

    def captured(step):
        graph: Any
        graph, graph_result = own(step)
        graph.work, graph.result = step.forward, graph_result
        return graph, graph_result

    monkeypatch.setattr(module.Step, "_capture", captured)
    for name, stub in (
        ("Stream", Stream),
        ("current_stream", Stream),
        ("stream", lambda _: contextlib.nullcontext()),
        ("graph", capture),
        ("CUDAGraph", FakeGraph),
        ("graph_pool_handle", lambda: "pool"),
    ):
        monkeypatch.setattr(torch.cuda, name, stub)


@torch.inference_mode()
def test_a_shape_is_captured_once_and_replayed_after(fake_cuda):
    model, rng = build_model("qwen2", vocabulary=64), np.random.default_rng(0)
    replayed, _ = targets = StaticTarget(model), Target(model)
    before = FakeGraph.captured
    for _ in range(2):
        prefill(targets, np.arange(1, 9), 40)
        for n in (2, 1, 0, 2, 0):
            assert_same_step(targets, random_tree(rng, n), [0] if n else [])
    assert FakeGraph.captured - before == len(replayed.steps) == 2


def test_what_cannot_be_captured_is_one_line(fake_cuda, monkeypatch):
    def refuse():
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", refuse)
    target = StaticTarget(build_model("qwen2"))
    prefill([target], np.arange(1, 9), 40)
    with pytest.raises(UnavailableError, match=r"capture.*\(operation.*capturing\): set graphs"):
        target.score([5], [NO_TREE])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch about itself
def test_steps_are_static_on_cuda_or_when_compiled():
    model = build_model("qwen2")
    assert type(target_for(model)) is Target
    assert type(target_for(model, graphs="off")) is Target
    compiled = target_for(model, compiled=True)
    assert isinstance(compiled, StaticTarget)
    assert not compiled.graphs
