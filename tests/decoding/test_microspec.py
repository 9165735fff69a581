"""MicroSpec as a draft vocabulary: what is active when, and the logits of it."""

from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from tasc.decoding.drafters import heads
from tasc.decoding.drafters.heads.draft_vocab import microspec, window
from tasc.decoding.drafters.heads.draft_vocab.frequent import Frequent
from tasc.decoding.drafters.heads.draft_vocab.full import Full
from tasc.decoding.drafters.heads.draft_vocab.microspec import MicroSpec, WindowOptions
from tasc.decoding.drafters.heads.draft_vocab.window import Window
from tasc.decoding.drafters.heads.eagle import EagleOptions
from tasc.models.draft_head import new_head
from tests.decoding.heads import eagle
from tests.decoding.scripted import ints
from tests.decoding.window import vocabularies
from tests.pico import build_model

V, D = 200, 8
DTYPES = (torch.float32, torch.bfloat16)


def head(bias: bool = False, dtype: torch.dtype = torch.float32) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(D, V, bias=bias).to(dtype)


def top(rows: torch.Tensor, k: int) -> list[int]:
    return [i for row in rows for i in row.argsort(descending=True)[:k].tolist()]


class Sequence:
    """Random events of one sequence, and what the definition makes of them."""

    def __init__(self, lm_head: nn.Linear, seed: int = 0, steps: int = 6) -> None:
        rng = np.random.default_rng(seed)
        make = torch.Generator().manual_seed(seed)
        dtype = lm_head.weight.dtype
        self.prompt = torch.from_numpy(rng.integers(0, V, 150))
        self.hidden = torch.randn(150, D, generator=make).to(dtype)
        self.steps = []
        for _ in range(steps):
            n, k = int(rng.integers(0, 20)), int(rng.integers(1, 5))
            drafted = torch.from_numpy(rng.integers(0, V, n))
            rows = torch.randn(n + 1, V, generator=make).to(dtype)
            kept = torch.from_numpy(np.sort(rng.choice(n + 1, min(k, n + 1), replace=False)))
            self.steps.append((drafted, rows, kept))
        self.lm_head = lm_head

    @torch.no_grad()
    def expected(self, options: WindowOptions, apart: Collection[int] = ()):
        """Yield the active tokens before each step; those ``apart`` are in no stream."""

        def others(tokens: Iterable[int]) -> list[int]:
            return [token for token in tokens if token not in apart]

        k_pre = max(options.k_pre, options.window // len(self.prompt) - 1)
        k_pre = k_pre if options.fill else options.k_pre
        prompt, before = self.prompt.tolist(), top(self.lm_head(self.hidden), k_pre)
        if not options.context:
            prompt, before = [], []
        steps = [
            (others(d.tolist()), others(top(r if options.tree else r[kept], options.k_ver)))
            for d, r, kept in self.steps
        ]
        if not options.extension:
            steps = [([], [])] * len(steps)
        return vocabularies(others(prompt), others(before), steps, options.window)

    def run(self, found: MicroSpec):
        found.start(self.prompt, self.hidden)
        yield found
        for drafted, rows, kept in self.steps:
            found.drafted(drafted)
            found.observe(rows.argmax(-1)[kept], rows, kept)
            yield found


def check_logits(logits: torch.Tensor, full: torch.Tensor, ids: torch.Tensor, **tolerance) -> None:
    """Check that columns with a token have its logit in ``full``, and the others none."""
    used = ids >= 0
    assert logits.shape == (len(full), len(ids))
    torch.testing.assert_close(logits[:, used], full[:, ids[used]], **tolerance)
    assert (logits[:, ~used] == -torch.inf).all()


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16])
@pytest.mark.parametrize("k", [1, 3, 64, 70])
def test_the_best_of_rows_are_the_largest(k, dtype):
    rows = torch.randn(5, 3000, generator=torch.Generator().manual_seed(1)).to(dtype)
    which = torch.tensor([4, 0, 4])
    for asked, found in ((None, rows), (which, rows[which])):
        best = microspec.best_of(rows, asked, k).view(-1, k).long()
        assert torch.equal(found.gather(1, best), found.topk(k).values)


SETTINGS = [
    WindowOptions(),
    WindowOptions(window=40),
    WindowOptions(window=90, k_pre=0, k_ver=5),
    WindowOptions(window=60, extension=False),
    WindowOptions(window=60, context=False),
    WindowOptions(tree=False),
    WindowOptions(window=90, k_ver=2, tree=False),
    WindowOptions(fill=True),
    WindowOptions(window=400, fill=True),
]


@pytest.mark.parametrize("options", SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_the_active_tokens_are_those_of_the_definition(options, seed):
    sequence = Sequence(head(), seed)
    expected = sequence.expected(options)
    for found in sequence.run(MicroSpec(sequence.lm_head, options)):
        active = found.ids[found.ids >= 0].tolist()
        assert len(active) == len(set(active))
        assert set(active) == next(expected)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@torch.no_grad()
def test_logits_are_the_heads_own_and_free_slots_have_none(bias, dtype):
    sequence = Sequence(head(bias, dtype))
    states = torch.randn(5, D).to(dtype)
    full = sequence.lm_head(states).float()
    tolerance = 1e-5 if dtype is torch.float32 else 0.05
    for found in sequence.run(MicroSpec(sequence.lm_head, WindowOptions(window=50))):
        logits = found.logits(states).float()
        check_logits(logits, full, found.ids, atol=tolerance, rtol=tolerance)


@torch.no_grad()
def test_candidates_may_be_ranked_in_bfloat16(monkeypatch):
    lm_head = head(bias=True)
    monkeypatch.setattr(microspec, "device_has_bfloat16", lambda device: True)
    ranking = microspec.quick(lm_head)
    assert ranking.weight.dtype is torch.bfloat16
    assert lm_head.weight.dtype is torch.float32
    found = MicroSpec(lm_head, WindowOptions(k_pre=1), ranking)
    hidden = torch.randn(30, D)
    found.start(torch.zeros(1, dtype=torch.int64), hidden)
    expected = {0, *ranking(hidden.bfloat16()).argmax(-1).tolist()}
    assert set(found.ids[found.ids >= 0].tolist()) == expected
    monkeypatch.setattr(microspec, "device_has_bfloat16", lambda device: False)
    assert microspec.quick(lm_head) is lm_head


def test_what_was_sampled_joins_the_window_though_it_is_no_candidate():
    sequence = Sequence(head(), steps=1)
    _, rows, kept = sequence.steps[0]
    found = MicroSpec(sequence.lm_head, WindowOptions(context=False, tree=False))
    found.start(sequence.prompt, sequence.hidden)
    least = rows.argmin(-1)[kept]
    found.observe(least, rows, kept)
    expected = {*top(rows[kept], 3), *least.tolist()}
    assert set(found.ids[found.ids >= 0].tolist()) == expected


def test_a_new_sequence_knows_nothing_of_the_last():
    lm_head = head()
    found = MicroSpec(lm_head, WindowOptions(window=60))
    first, second = Sequence(lm_head, 1), Sequence(lm_head, 2)
    alone = [v.ids.tolist() for v in second.run(MicroSpec(lm_head, found.options))]
    list(first.run(found))
    assert [v.ids.tolist() for v in second.run(found)] == alone


@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_frequent_tokens_stand_before_the_window_and_not_in_it(bias):
    sequence, options = Sequence(head(bias)), WindowOptions(window=50, k_pre=2, k_ver=2)
    some = torch.arange(0, V, 7)
    found = MicroSpec(sequence.lm_head, options, None, Frequent(sequence.lm_head, some))
    states = torch.randn(5, D)
    full = sequence.lm_head(states)
    expected = sequence.expected(options, set(some.tolist()))
    for state in sequence.run(found):
        ids = state.ids
        assert ids[: len(some)].tolist() == some.tolist()
        window = ids[len(some) :][ids[len(some) :] >= 0].tolist()
        assert len(window) == len(set(window))
        assert set(window) == next(expected)
        check_logits(state.logits(states), full, ids)


def test_the_second_stream_keeps_what_it_works_on(monkeypatch):
    class Stream:
        device = torch.device("cpu")
        wait_stream = record_event = wait_event = lambda self, *_: self

    kept = set()
    for name, stub in (("current_stream", lambda _: Stream()), ("stream", lambda _: nullcontext())):
        monkeypatch.setattr(torch.cuda, name, stub)
    keep = lambda tensor, _: kept.add(tensor.data_ptr())  # noqa: E731
    monkeypatch.setattr(torch.Tensor, "record_stream", keep, raising=False)
    sequence = Sequence(head(), steps=1)
    found = MicroSpec(sequence.lm_head, WindowOptions(window=64))
    found._stream = Stream()  # type: ignore[assignment]
    found.start(sequence.prompt, sequence.hidden)
    own = found._window
    written = [*own._arrays, own.held, found._buffer, found._mask, found._ids]
    assert {t.data_ptr() for t in written} <= kept


VOCABULARIES: dict[str, Callable[[nn.Linear], object]] = {
    "full": Full,
    "fr-spec": lambda head: Frequent(head, torch.arange(50)),
    "microspec": lambda head: MicroSpec(head, WindowOptions(window=64)),
    "microspec-frequent": lambda head: MicroSpec(
        head, WindowOptions(window=64, frequent=50), None, Frequent(head, torch.arange(50))
    ),
}


@pytest.mark.parametrize("name", VOCABULARIES)
@torch.no_grad()
def test_no_step_waits_for_the_device(monkeypatch, name):
    """Nothing but the tree is copied to the host: tensors on "meta", without values, refuse it."""
    model, kernels, trees = build_model().to("meta"), [], []
    monkeypatch.setattr(window, "available", lambda _: True)
    monkeypatch.setattr(Window, "push", lambda *_: kernels.append("push"))
    monkeypatch.setattr(window, "gather", lambda *_: kernels.append("gather"))
    monkeypatch.setattr(heads.eagle, "_to_host", lambda *tree: trees.append(tree))
    vocabulary = VOCABULARIES[name](model.get_output_embeddings())
    found = eagle(model, new_head(model), vocabulary, EagleOptions())
    found.start(np.arange(1, 9, dtype=np.int32))
    rows = 8
    for committed, path in [([3], []), ([4, 5, 6], [0, 2]), ([7], []), ([1, 2], [59])]:
        logits = torch.empty(rows, 320, device="meta")
        found.on_hidden_states(torch.empty(rows, 64, device="meta"), logits, ints(*path))
        found.observe(ints(*committed))
        found.draft(60)
        rows = 61
    assert len(trees) == 4
    assert all(part.device.type == "meta" for tree in trees for part in tree)
    assert all(len(tokens) == len(parents) == 60 for tokens, parents, _ in trees)
    assert bool(kernels) == name.startswith("microspec")


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature")
@torch.no_grad()
def test_on_the_device_it_is_the_same_and_nothing_waits_for_the_host():
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA device")
    sequence, options = Sequence(head(), steps=12), WindowOptions(window=64)
    expected = sequence.expected(options)
    states = torch.randn(5, D)
    full = sequence.lm_head(states)
    found = MicroSpec(head().cuda(), options)
    moved = [[t.cuda() for t in step] for step in sequence.steps]
    found.start(sequence.prompt.cuda(), sequence.hidden.cuda())
    for drafted, rows, kept in [*moved, (None, None, None)]:
        ids = found.ids.cpu()
        assert set(ids[ids >= 0].tolist()) == next(expected)
        check_logits(found.logits(states.cuda()).cpu(), full, ids, atol=1e-3, rtol=1e-3)
        if drafted is None:
            break
        on_device, chosen = states.cuda(), rows.argmax(-1)[kept]
        torch.cuda.set_sync_debug_mode("error")
        try:
            found.drafted(drafted)
            found.observe(chosen, rows, kept)
            found.logits(on_device)
        finally:
            torch.cuda.set_sync_debug_mode("default")
