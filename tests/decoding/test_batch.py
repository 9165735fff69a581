"""Batched output is single-sequence output, whatever the rows' lengths, drafts and company."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from tasc.decoding.core.draft import Draft
from tasc.decoding.decode import Request, generate, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.errors import InputError
from tasc.models.target import Target
from tests.decoding.scripted import Excessive, Fixed, ints
from tests.pico import ARCHITECTURES, build_model, build_windowed, continued

METHODS = (
    "ar",
    "tasc-spec:p_min=1",
    "tasc-spec:p_min=1,width=2,budget=33,lambda=0.5,adapt=false",
    "prompt-lookup",
    "suffix:budget=20",
    "recycling",
)
LENGTHS = (1, 5, 17, 40, 2, 40, 9, 23, 3, 11)
NEW_TOKENS = 40


def requests(drafters, prompts):
    return [Request(p, d) for p, d in zip(prompts, drafters, strict=True)]


def scripted(outputs, accepted):
    return [partial(Scripted, o, n) for o, n in zip(outputs, accepted, strict=True)]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def case(request):
    """A model, ragged prompts, an end token that some outputs reach early, and the outputs."""
    model = build_model(request.param)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(1, 320, n).astype(np.int32) for n in LENGTHS]
    free = [continued(model, p, NEW_TOKENS, eos_token_id=None) for p in prompts]
    end = int(free[1][7])
    outputs = [continued(model, p, NEW_TOKENS, eos_token_id=end) for p in prompts]
    assert len({len(o) for o in outputs}) > 1, "all rows end together: nothing leaves early"
    return Target(model), prompts, outputs, end


@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("text", METHODS)
def test_batched_output_equals_generate_and_the_single_loop(case, text, size):
    target, prompts, outputs, end = case
    rng = np.random.default_rng(1)
    noise = [rng.permutation(o).astype(np.int32) for o in outputs]
    method = parse(text)
    factory = method.prepare(Resources([*outputs, *outputs, *noise], end, target=target))
    options: dict[str, Any] = {
        "max_new_tokens": NEW_TOKENS,
        "end_ids": (end,),
        "budget": method.budget,
    }
    results = generate_all(target, requests([factory] * 10, prompts), batch_size=size, **options)
    for prompt, expected, result in zip(prompts, outputs, results, strict=True):
        assert result.tokens.tolist() == expected.tolist()
        alone = generate(target, factory(), prompt, **options)
        assert result.tokens.tolist() == alone.tokens.tolist()
        if not method.learns:  # from the sequences beside it
            one = requests([factory], [prompt])
            alone = generate_all(target, one, batch_size=min(size, 2), **options)[0]
            assert (result.drafted, result.accepted) == (alone.drafted, alone.accepted)
        assert result.finish == alone.finish
    if text.startswith("tasc-spec"):
        assert len({tuple(r.accepted) for r in results}) > 1, "acceptance is not ragged"


class Scripted(Fixed):
    """Drafts the true output as a chain below a wrong branch, so that every commit moves keys."""

    def __init__(self, output: np.ndarray, accepted: int) -> None:
        super().__init__(output)
        self.accepted = accepted

    def draft(self, max_nodes):
        right = self.output[self.done : self.done + self.accepted]
        if max_nodes < len(right) + 2 or len(right) == 0:
            return Draft()
        wrong = ints(*((right[0] + [1, 2]) % 300 + 1))
        parents = ints(-1, 0, -1, *range(2, len(right) + 1))
        return Draft(np.concatenate([wrong, right]).astype(np.int32), parents)


@pytest.mark.parametrize("poison", [1e4, -1e4])
def test_stale_keys_are_never_seen(case, poison, monkeypatch):
    """Whatever lies outside the accepted tokens of a row is poisoned before every step."""
    target, prompts, outputs, end = case
    score, steps = target.score, []

    @torch.inference_mode()
    def poisoned(last, trees):
        kv_cache = target.kv_cache
        for row in range(kv_cache.rows):
            length = int(kv_cache.lengths[row]) if row < len(kv_cache.lengths) else 0
            for block in kv_cache.blocks.values():
                block[:, :, row, :, length:] = poison
        steps.append(kv_cache.lengths.tolist())
        return score(last, trees)

    monkeypatch.setattr(target, "score", poisoned)
    asked = requests(scripted(outputs, [i % 4 for i in range(len(outputs))]), prompts)
    limits: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "end_ids": (end,), "budget": 8}
    results = generate_all(target, asked, **limits, batch_size=3)
    assert [r.tokens.tolist() for r in results] == [o.tolist() for o in outputs]
    assert any(len(set(lengths)) > 1 for lengths in steps), "no step was ragged"
    assert sum(sum(r.accepted) for r in results) > 50


def test_rows_of_a_step_equal_each_path_on_its_own():
    target = Target(build_model("qwen2"))
    prompts = [ints(9, 8, 7, 6), ints(5), ints(4, 3)]
    trees = [
        (ints(11, 12, 13), ints(-1, 0, -1)),
        (ints(), ints()),
        (ints(21, 22, 23, 24, 25), ints(-1, -1, 1, 1, 3)),
    ]
    target.begin(20, 3)
    target.join(prompts[:2])
    target.join(prompts[2:])
    rows = target.score([30, 31, 32], trees)
    assert rows.shape == (3, 6, 320)
    assert torch.isfinite(rows).all(), "padding poisons the cache"
    for b, (prompt, (tokens, parents)) in enumerate(zip(prompts, trees, strict=True)):
        target.prefill(prompt, 8)
        alone = target.score([30 + b], [(tokens, parents)])[0]
        assert torch.allclose(rows[b, : len(tokens) + 1], alone, atol=1e-4)


def test_prompts_that_join_together_get_the_logits_of_each_alone():
    target = Target(build_model("gemma"))
    prompts = [ints(3), ints(4, 5, 6, 7), ints(8, 9), ints(1, 2, 3, 4)]
    target.begin(8, 4)
    together = target.join(prompts)
    for row, prompt in zip(together, prompts, strict=True):
        assert torch.allclose(row, target.prefill(prompt, 4)[0], atol=1e-4)


def test_sliding_windows_hold_for_every_row():
    model = build_windowed()
    prompts = [np.arange(1, n, dtype=np.int32) for n in (11, 3, 8)]
    outputs = [continued(model, p, 20, eos_token_id=None) for p in prompts]
    asked = requests(scripted(outputs, (3, 0, 2)), prompts)
    results = generate_all(Target(model), asked, max_new_tokens=20, budget=8, batch_size=3)
    assert [r.tokens.tolist() for r in results] == [o.tolist() for o in outputs]


def test_the_cache_grows_when_a_step_needs_more_than_was_planned():
    target = Target(build_model("qwen2"))
    target.begin(3, 2)
    target.join([ints(1, 2, 3), ints(4)])
    many = ints(*range(10, 30))
    target.score([5, 6], [(many, np.arange(-1, 19, dtype=np.int32)), (ints(), ints())])
    target.keep([list(range(20)), []])
    rows = target.score([7, 8], [(ints(), ints())] * 2)[:, 0]
    for row, ids in zip(rows, ([1, 2, 3, 5, *range(10, 30), 7], [4, 6, 8]), strict=True):
        with torch.inference_mode():
            alone = target.model(input_ids=torch.tensor([ids])).logits[0, -1]
        assert torch.allclose(row, alone, atol=1e-4)


def test_times_of_all_rows_add_up_to_the_time_that_passed(target):
    import time

    prompts = [ints(*range(1, 2 + i)) for i in range(7)]
    begin = time.perf_counter()
    asked = requests([Autoregressive] * 7, prompts)
    results = generate_all(target, asked, max_new_tokens=12, batch_size=3)
    passed = time.perf_counter() - begin
    booked = sum(r.timeline.total for r in results)
    assert 0.5 * passed < booked <= passed
    assert all(r.timeline.prefill > 0 and r.timeline.forward > 0 for r in results)


def test_no_prompts_give_no_generations_and_one_token_needs_no_step(target):
    assert generate_all(target, [], max_new_tokens=4, batch_size=2) == []
    prompts = [ints(1, 2), ints(3), ints(4, 5)]
    asked = requests([Autoregressive] * 3, prompts)
    results = generate_all(target, asked, max_new_tokens=1, batch_size=2)
    assert [len(r.tokens) for r in results] == [1, 1, 1]
    assert [r.decoding_steps for r in results] == [1, 1, 1]


def test_a_prompt_that_just_fits_is_decoded_as_by_the_single_loop():
    target = Target(build_model("qwen2"))
    prompts = [np.arange(1, 505, dtype=np.int32) % 320, ints(7)]
    alone = [generate(target, Autoregressive(), p, max_new_tokens=8).tokens for p in prompts]
    factory = parse("suffix:budget=20").prepare(Resources(alone, 0))
    for budget in (20, 10**5):
        asked = requests([factory, factory], prompts)
        results = generate_all(target, asked, max_new_tokens=8, budget=budget, batch_size=2)
        assert [r.tokens.tolist() for r in results] == [t.tolist() for t in alone]
    assert target.kv_cache.capacity < 600  # what drafts can fill, not what they may


def test_what_does_not_fit_is_refused(target):
    def decode(*prompts, batch_size=1, max_new_tokens=3):
        asked = requests([Autoregressive] * len(prompts), prompts)
        generate_all(target, asked, max_new_tokens=max_new_tokens, batch_size=batch_size)

    with pytest.raises(InputError, match="at least 1 sequence, got 0"):
        decode(ints(1), batch_size=0)
    target.begin(8, 1)
    with pytest.raises(InputError, match="2 sequences cannot join 0 in a batch of 1"):
        target.join([ints(1), ints(2)])
    with pytest.raises(InputError, match="no tokens"):
        decode(ints())
    with pytest.raises(InputError, match="at least 1, got 0"):
        decode(ints(1), max_new_tokens=0)
    with pytest.raises(InputError, match="512 positions"):
        decode(ints(1), np.ones(510, np.int32), max_new_tokens=9, batch_size=2)


@pytest.mark.parametrize("size", [1, 2])
def test_a_draft_beyond_the_budget_is_refused(target, size):
    asked = requests([Excessive] * 2, [ints(1), ints(2)])
    with pytest.raises(InputError, match="proposed 4 nodes for a budget of 3"):
        generate_all(target, asked, max_new_tokens=9, budget=3, batch_size=size)


def test_requests_are_decoded_in_their_order_one_at_a_time(target):
    order = []
    lengths = (3, 9, 1, 5)

    def noting(i):
        return lambda _: order.append(i)

    asked = [
        Request(ints(*range(1, 1 + n)), Autoregressive, on_tokens=noting(i))
        for i, n in enumerate(lengths)
    ]
    generate_all(target, asked, max_new_tokens=2)
    assert order == [0, 0, 1, 1, 2, 2, 3, 3]
