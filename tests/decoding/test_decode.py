"""The loop: output is that of plain decoding, whatever the rows' lengths, drafts and company."""

from functools import cache, partial
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch

from tasc.decoding.core.draft import Draft
from tasc.decoding.decode import Engine, Request, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.errors import InputError
from tasc.models.target import Target
from tests.decoding.outputs import generate, lists, misleading, random_prompts
from tests.decoding.scripted import Excessive, Fixed, floats, ints, paths
from tests.pico import ARCHITECTURES, build_model, build_windowed, continued
from tests.tiers import spread

METHODS = (
    "ar",
    "tasc-spec:p_min=1",
    "tasc-spec:p_min=1,width=2,budget=33,lambda=0.5,adapt=false",
    "prompt-lookup",
    "suffix:budget=20",
    "recycling",
)
LENGTHS = (1, 5, 17, 40, 2, 40, 9, 23, 3, 11)
NEW_TOKENS = 24


def requests(drafters, prompts):
    return [Request(p, d) for p, d in zip(prompts, drafters, strict=True)]


def plainly(*prompts):
    return [Request(prompt, Autoregressive) for prompt in prompts]


def plain(target, prompt, n):
    """Return the ``n`` tokens that plain decoding writes after ``prompt``."""
    return generate(target, Autoregressive(), prompt, max_new_tokens=n).tokens


def scripted(outputs, accepted):
    return [partial(Scripted, o, n) for o, n in zip(outputs, accepted, strict=True)]


def expected_row(target, ids):
    """Return the model's own logits after ``ids``."""
    with torch.inference_mode():
        return target.model(input_ids=torch.tensor([ids])).logits[0, -1]


@cache
def case(architecture):
    """Return a model, ragged prompts, an end token that some outputs reach early, and outputs."""
    model = build_model(architecture)
    prompts = random_prompts(*LENGTHS)
    free = [continued(model, p, NEW_TOKENS, eos_token_id=None) for p in prompts]
    end = int(free[1][7])
    outputs = [continued(model, p, NEW_TOKENS, eos_token_id=end) for p in prompts]
    assert len({len(o) for o in outputs}) > 1, "all rows end together: nothing leaves early"
    return Target(model), prompts, outputs, end


@spread("architecture, text", ARCHITECTURES, METHODS, every=2)
def test_batched_output_equals_generate_and_the_single_loop(architecture, text):
    target, prompts, outputs, end = case(architecture)
    method = parse(text)
    factory = method.prepare(Resources(misleading(outputs), end, target=target))
    options: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "end_ids": (end,)}

    def decode(size, *prompts):
        asked = requests([factory] * len(prompts), prompts)
        return generate_all(target, asked, batch_size=size, budget=method.budget, **options)

    alone = [decode(1, prompt)[0] for prompt in prompts]
    beside = [decode(2, prompt, prompt)[0] for prompt in prompts]  # drafts from the second step on
    assert lists(alone) == lists(beside) == lists(outputs)
    for size in (1, 3, 8):
        results = decode(size, *prompts)
        assert lists(results) == lists(outputs)
        for result, *same in zip(results, alone, beside, strict=True):
            assert {result.finish} == {one.finish for one in same}
            if not method.learns:  # from the sequences beside it
                counts = [(one.drafted, one.accepted) for one in same]
                assert (result.drafted, result.accepted) in counts
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


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("poison", [1e4, -1e4])
def test_stale_keys_are_never_seen(architecture, poison, monkeypatch):
    """Whatever lies outside the accepted tokens of a row is poisoned before every step."""
    target, prompts, outputs, end = case(architecture)
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
    assert lists(results) == lists(outputs)
    assert any(len(set(lengths)) > 1 for lengths in steps), "no step was ragged"
    assert sum(sum(r.accepted) for r in results) > 50


@pytest.mark.parametrize("size", [1, 3])
def test_rows_of_a_step_equal_each_path_on_its_own(target, size):
    prompts = [ints(9, 8, 7, 6), ints(5), ints(4, 3)][-size:]
    trees = [
        Draft(ints(11, 12, 13), ints(-1, 0, -1)),
        Draft(),
        Draft(ints(21, 22, 23, 24, 25), ints(-1, -1, 1, 1, 3)),
    ][-size:]
    target.begin(20, size)
    target.join(prompts[:2])
    if prompts[2:]:
        target.join(prompts[2:])
    rows = target.score([30, 31, 32][-size:], [(tree.tokens, tree.parents) for tree in trees])
    assert rows.shape == (size, 6, 320)
    assert torch.isfinite(rows).all(), "padding poisons the cache"
    for prompt, last, tree, own in zip(prompts, [30, 31, 32][-size:], trees, rows, strict=True):
        for path, row in zip([(), *paths(tree)], own, strict=False):
            expected = expected_row(target, [*prompt.tolist(), last, *path])
            assert torch.allclose(row, expected, atol=1e-4)


def test_prompts_that_join_together_get_the_logits_of_each_alone():
    target = Target(build_model("gemma"))
    prompts = [ints(3), ints(4, 5, 6, 7), ints(8, 9), ints(1, 2, 3, 4)]
    target.begin(8, 4)
    together = target.join(prompts)
    for row, prompt in zip(together, prompts, strict=True):
        assert torch.allclose(row, target.prefill(prompt, 4)[0], atol=1e-4)


@pytest.mark.parametrize("size", [1, 3])
def test_sliding_windows_hold_for_every_row(size):
    model = build_windowed()
    prompts = [np.arange(1, n, dtype=np.int32) for n in (11, 3, 8)]
    outputs = [continued(model, p, 20, eos_token_id=None) for p in prompts]
    asked = requests(scripted(outputs, (3, 0, 2)), prompts)
    results = generate_all(Target(model), asked, max_new_tokens=20, budget=8, batch_size=size)
    assert lists(results) == lists(outputs)


def test_the_cache_grows_when_a_step_needs_more_than_was_planned(target):
    target.begin(3, 2)
    target.join([ints(1, 2, 3), ints(4)])
    many = ints(*range(10, 30))
    target.score([5, 6], [(many, np.arange(-1, 19, dtype=np.int32)), (ints(), ints())])
    target.keep([list(range(20)), []])
    rows = target.score([7, 8], [(ints(), ints())] * 2)[:, 0]
    for row, ids in zip(rows, ([1, 2, 3, 5, *range(10, 30), 7], [4, 6, 8]), strict=True):
        assert torch.allclose(row, expected_row(target, ids), atol=1e-4)


def test_times_of_all_rows_add_up_to_the_time_that_passed(target, monkeypatch):
    ticks = count()  # each look at the clock is a second later
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))
    asked = plainly(*(ints(*range(1, 2 + i)) for i in range(7)))
    results = generate_all(target, asked, max_new_tokens=12, batch_size=3)
    passed = next(ticks)
    booked = sum(r.timeline.total for r in results)
    assert 0.5 * passed < booked <= passed
    assert all(r.timeline.prefill > 0 and r.timeline.forward > 0 for r in results)


def test_no_prompts_give_no_generations_and_one_token_needs_no_step(target):
    assert generate_all(target, [], max_new_tokens=4, batch_size=2) == []
    asked = plainly(ints(1, 2), ints(3), ints(4, 5))
    results = generate_all(target, asked, max_new_tokens=1, batch_size=2)
    assert [len(r.tokens) for r in results] == [1, 1, 1]
    assert [r.decoding_steps for r in results] == [1, 1, 1]


def test_a_prompt_that_just_fits_is_decoded_as_by_the_single_loop(target):
    prompts = [np.arange(1, 505, dtype=np.int32) % 320, ints(7)]
    single = [plain(target, prompt, 8) for prompt in prompts]
    factory = parse("suffix:budget=20").prepare(Resources(single, 0))
    for budget in (20, 10**5):
        asked = requests([factory, factory], prompts)
        results = generate_all(target, asked, max_new_tokens=8, budget=budget, batch_size=2)
        assert lists(results) == lists(single)
    assert target.kv_cache.capacity < 600  # what drafts can fill, not what they may


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ([ints(1)], {"batch_size": 0}, "at least 1 sequence, got 0"),
        ([ints()], {}, "no tokens"),
        ([ints(1)], {"max_new_tokens": 0}, "at least 1, got 0"),
        ([ints(1)], {"max_new_tokens": 0, "batch_size": 2}, "at least 1, got 0"),
        ([np.ones(510, np.int32)], {}, "512 positions"),
        ([ints(1), np.ones(510, np.int32)], {"batch_size": 2}, "512 positions"),
    ],
)
def test_what_does_not_fit_is_refused(target, prompts, options, message):
    with pytest.raises(InputError, match=message):
        generate_all(target, plainly(*prompts), **{"max_new_tokens": 9} | options)


def test_no_more_sequences_join_than_the_batch_has_room_for(target):
    target.begin(8, 1)
    with pytest.raises(InputError, match="2 sequences cannot join 0 in a batch of 1"):
        target.join([ints(1), ints(2)])


@pytest.mark.parametrize("size", [1, 2])
def test_a_draft_beyond_the_budget_is_refused(target, size):
    asked = requests([Excessive] * 2, [ints(1), ints(2)])
    with pytest.raises(InputError, match="proposed 4 nodes for a budget of 3"):
        generate_all(target, asked, max_new_tokens=9, budget=3, batch_size=size)


def test_requests_are_decoded_in_their_order_one_at_a_time(target):
    order: list[int] = []

    def request(n):
        prompt = ints(*range(1, 1 + n))
        return Request(prompt, Autoregressive, on_tokens=lambda _: order.append(n))

    asked = [request(n) for n in (3, 9, 1, 5)]
    generate_all(target, asked, max_new_tokens=2)
    assert order == [3, 3, 9, 9, 1, 1, 5, 5]


def test_a_perfect_draft_is_accepted_whole(target):
    expected = plain(target, ints(5, 6, 7), 21)
    result = generate(target, Fixed(expected), ints(5, 6, 7), max_new_tokens=21, budget=4)
    assert result.tokens.tolist() == expected.tolist()
    assert (result.prefilled, result.accepted) == (5, [4, 4, 4, 0])
    assert result.decoding_steps == 5


@pytest.mark.parametrize("shared", [0, 3])
def test_one_forward_reads_a_prompt_and_scores_a_tree(target, shared):
    prompt, tree = ints(9, 8, 7, 6, 5), (ints(11, 12, 13, 14), ints(-1, 0, 0, -1))
    target.prefill(prompt[:-1], 16)
    rows = target.score(prompt[-1:], [tree])
    target.keep([ints(0, 2)])
    then = target.score([3], [(ints(), ints())])
    assert torch.allclose(
        then[0, 0], expected_row(target, [*prompt.tolist(), 11, 13, 3]), atol=1e-4
    )
    target.share(prompt[:shared])
    try:
        target.begin(16)
        assert target.can_read(prompt)
        assert torch.allclose(target.read(prompt, tree), rows, atol=1e-5)
        target.keep([ints(0, 2)])
        assert torch.allclose(target.score([3], [(ints(), ints())]), then, atol=1e-5)
    finally:
        target.share(ints())


def test_a_sequence_drafts_with_its_prompt_only_if_alone_and_the_prompt_is_short(
    target, monkeypatch
):
    monkeypatch.setattr("tasc.models.target.LONGEST_CHAIN", 3)
    for prompt, size, company, prefilled in (
        (ints(5, 6, 7), 1, 1, 5),
        (ints(5, 6, 7), 1, 2, 5),
        (ints(5, 6, 7), 2, 1, 5),
        (ints(5, 6, 7), 2, 2, 1),
        (ints(*range(1, 5)), 1, 1, 1),
    ):
        expected = plain(target, prompt, 9)
        asked = [Request(prompt, partial(Fixed, expected))] * company
        for done in generate_all(target, asked, max_new_tokens=9, budget=4, batch_size=size):
            assert done.tokens.tolist() == expected.tolist()
            assert done.prefilled == prefilled


def test_sequences_join_and_leave_between_steps_without_changing_each_other(target):
    """In any order, in any company, with and without drafts, cancelled or not."""
    prompts = random_prompts(3, 9, 1, 21, 5, 12, 2, 30)
    expected = [plain(target, prompt, 16).tolist() for prompt in prompts]
    factory = parse("tasc-spec:p_min=1").prepare(Resources(misleading([np.array(expected[0])]), 0))
    draw = np.random.default_rng(3)
    _ = target.head
    for size in (1, 3):
        engine = Engine(target, budget=8)
        engine.begin(64, size)
        waiting = draw.permutation(len(prompts)).tolist()
        numbers, cancelled, done = {}, set(), []
        while waiting or engine.busy:
            if waiting and draw.random() < 0.5:
                number = waiting.pop()
                drafter = factory if number % 2 else Autoregressive
                numbers[engine.submit(Request(prompts[number], drafter), 16)] = number
            if engine.live and draw.random() < 0.1:
                cancelled.add(sequence := engine.live[int(draw.integers(len(engine.live)))])
                engine.cancel(sequence)
                assert sequence not in engine.live
                assert sequence.finished == "cancelled"
            if engine.busy:
                done += engine.step()
            assert len(engine.live) <= size
        assert {*done} | cancelled == {*numbers}
        for sequence in done:
            assert sequence.result.tokens.tolist() == expected[numbers[sequence]]
            assert sequence.accepted <= sequence.drafted
        for sequence in cancelled - {*done}:
            tokens = sequence.result.tokens.tolist()
            assert tokens == expected[numbers[sequence]][: len(tokens)]


def test_a_sequence_that_waits_can_be_cancelled_and_never_joins(target):
    engine = Engine(target, budget=4)
    engine.begin(32, 1)
    first, second = (engine.submit(request, 4) for request in plainly(ints(5), ints(6)))
    engine.step()
    engine.cancel(second)
    engine.cancel(second)
    while engine.busy:
        engine.step()
    assert first.result.tokens.tolist() == plain(target, ints(5), 4).tolist()
    assert second.finished == "cancelled"
    assert not len(second.result.tokens)


def test_an_error_of_one_sequence_ends_that_one_alone(target):
    def fails(*_):
        raise InputError("nothing may come next")

    expected = plain(target, ints(5), 8).tolist()
    engine = Engine(target, budget=4)
    engine.begin(32, 2)
    wrong = engine.submit(Request(ints(6), Autoregressive, fails), 8)
    right = engine.submit(Request(ints(5), Autoregressive), 8)
    while engine.busy:
        engine.step()
    assert (wrong.finished, str(wrong.error)) == ("error", "nothing may come next")
    assert right.result.tokens.tolist() == expected
    with pytest.raises(InputError, match="nothing may come next"):
        generate_all(target, [wrong.request], max_new_tokens=8)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_never_more_tokens_than_asked_for(target, limit):
    tokens = plain(target, ints(3, 4), 12)
    result = generate(target, Fixed(tokens), ints(3, 4), max_new_tokens=limit, budget=8)
    assert result.tokens.tolist() == tokens[:limit].tolist()


@pytest.mark.parametrize(
    ("tokens", "parents", "probabilities", "message"),
    [
        (ints(1, 2), ints(-1, 1), None, "node 1 has parent 1"),
        (ints(1, 2), ints(-1, -2), None, "node 1 has parent -2"),
        (ints(1, 2), ints(-1), None, "2 tokens needs 2 parents"),
        (np.array([1]), ints(-1), None, "int32"),
        (ints(1, 2), ints(-1, 0), floats(1), "2 tokens needs 2 prob"),
    ],
)
def test_a_malformed_draft_is_refused(tokens, parents, probabilities, message):
    with pytest.raises(InputError, match=message):
        Draft(tokens, parents, probabilities=probabilities)
