from functools import partial

import numpy as np
import pytest
import torch

from tasc.decoding.core.draft import Draft
from tasc.decoding.decode import Request, generate, generate_all
from tasc.decoding.drafters import parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.verify import greedy
from tasc.errors import InputError
from tasc.models.target import Target
from tests.decoding.scripted import Fixed, ints
from tests.pico import build_windowed


def plain(target, prompt, n, ends=()):
    return generate(target, Autoregressive(), prompt, max_new_tokens=n, end_ids=ends)


def test_a_perfect_draft_is_accepted_whole(target):
    expected = plain(target, ints(5, 6, 7), 21).tokens
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
    for prompt, size, prefilled in (
        (ints(5, 6, 7), 1, 5),
        (ints(5, 6, 7), 2, 1),
        (ints(*range(1, 5)), 1, 1),
    ):
        expected = plain(target, prompt, 9).tokens
        asked = [Request(prompt, partial(Fixed, expected))]
        done = generate_all(target, asked, max_new_tokens=9, budget=4, batch_size=size)[0]
        assert done.tokens.tolist() == expected.tolist()
        assert done.prefilled == prefilled


def test_an_end_token_inside_an_accepted_run_ends_the_output(target):
    tokens = plain(target, ints(5, 6, 7), 20).tokens
    end = int(tokens[9])
    first = tokens.tolist().index(end)
    result = generate(
        target, Fixed(tokens), ints(5, 6, 7), max_new_tokens=20, end_ids=(end,), budget=8
    )
    assert result.tokens.tolist() == tokens[: first + 1].tolist()


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_never_more_tokens_than_asked_for(target, limit):
    tokens = plain(target, ints(3, 4), 12).tokens
    result = generate(target, Fixed(tokens), ints(3, 4), max_new_tokens=limit, budget=8)
    assert result.tokens.tolist() == tokens[:limit].tolist()


def test_tree_rows_equal_the_rows_of_each_path_on_its_own(target):
    prompt = ints(9, 8, 7, 6)
    parents = ints(-1, 0, 0, 2, -1, 4)
    tokens = ints(11, 12, 13, 14, 15, 16)
    target.prefill(prompt, 16)
    rows = target.score([5], [(tokens, parents)])[0]
    for node in range(-1, 6):
        path, at = [], node
        while at >= 0:
            path.append(int(tokens[at]))
            at = int(parents[at])
        ids = torch.tensor([[*prompt.tolist(), 5, *path[::-1]]])
        with torch.inference_mode():
            alone = target.model(input_ids=ids).logits[0, -1]
        assert torch.allclose(rows[node + 1], alone, atol=1e-4)


def test_keeping_a_path_leaves_the_cache_of_a_plain_run(target):
    prompt = ints(9, 8, 7, 6)
    target.prefill(prompt, 16)
    target.score([5], [(ints(11, 12, 13), ints(-1, -1, 1))])
    target.keep([ints(1, 2)])
    after = target.score([20], [(ints(), ints())])[0]
    with torch.inference_mode():
        alone = target.model(input_ids=torch.tensor([[9, 8, 7, 6, 5, 12, 13, 20]])).logits[0, -1]
    assert torch.allclose(after[0], alone, atol=1e-4)


def test_the_cache_grows_when_a_step_needs_more_than_was_planned(target):
    target.prefill(ints(1, 2, 3), 1)
    target.score([5], [(ints(*range(10, 30)), np.arange(-1, 19, dtype=np.int32))])
    target.keep([list(range(20))])
    row = target.score([7], [(ints(), ints())])[0, 0]
    with torch.inference_mode():
        alone = target.model(input_ids=torch.tensor([[1, 2, 3, 5, *range(10, 30), 7]])).logits[
            0, -1
        ]
    assert torch.allclose(row, alone, atol=1e-4)


def test_sliding_windows_hold_for_trees():
    model = build_windowed()
    prompt = torch.arange(1, 11)
    expected = model.generate(prompt[None], max_new_tokens=16, do_sample=False, pad_token_id=0)
    expected = expected[0, 10:].numpy().astype(np.int32)
    result = generate(
        Target(model),
        Fixed(expected),
        prompt.numpy().astype(np.int32),
        max_new_tokens=16,
        end_ids=(2,),
        budget=5,
    )
    assert result.tokens.tolist() == expected.tolist()


def test_greedy_walk_takes_the_bonus_token_after_the_accepted_path():
    rows = torch.zeros(4, 9)
    for row, token in enumerate((3, 5, 6, 7)):
        rows[row, token] = 1
    path, bonus = greedy(Draft(ints(3, 5, 4), ints(-1, 0, -1)), rows)
    assert (path.tolist(), bonus) == ([0, 1], 6)
    path, bonus = greedy(Draft(ints(4, 5, 8), ints(-1, 0, -1)), rows)
    assert (path.tolist(), bonus) == ([], 3)


@pytest.mark.parametrize(
    ("tokens", "parents", "message"),
    [
        (ints(1, 2), ints(-1, 1), "node 1 has parent 1"),
        (ints(1, 2), ints(-1, -2), "node 1 has parent -2"),
        (ints(1, 2), ints(-1), "2 tokens needs 2 parents"),
        (np.array([1]), ints(-1), "int32"),
    ],
)
def test_a_malformed_draft_is_refused(tokens, parents, message):
    with pytest.raises(InputError, match=message):
        Draft(tokens, parents)


def test_a_draft_with_another_number_of_probabilities_is_refused():
    with pytest.raises(InputError, match="2 tokens needs 2 prob"):
        Draft(ints(1, 2), ints(-1, 0), probabilities=np.ones(1, np.float32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("magic", "unknown method 'magic': choose from ar, grammar, tasc-spec"),
        ("tasc-spec:gamma=3", "unknown option 'gamma'; options: budget, n_max"),
        ("tasc-spec:n_max=x", "n_max must be int, got 'x'"),
        ("tasc-spec:lambda=2", "lambda must lie between 0 and 1, got 2.0"),
        ("tasc-spec:budget=-1", "budget must lie between 0 and 1,024, got -1"),
        ("tasc-spec:budget=99999999", "budget must lie between 0 and 1,024, got 99999999"),
        ("ar:budget=3", "unknown option 'budget'; options: none"),
    ],
)
def test_a_wrong_method_is_refused_with_what_is_allowed(text, message):
    with pytest.raises(InputError, match=message):
        parse(text)


def test_an_empty_or_too_long_prompt_is_refused(target):
    with pytest.raises(InputError, match="no tokens"):
        plain(target, ints(), 3)
    with pytest.raises(InputError, match="512 positions"):
        plain(target, np.ones(510, np.int32), 30)


def test_no_tokens_at_all_cannot_be_asked_for(target):
    with pytest.raises(InputError, match="at least 1, got 0"):
        plain(target, ints(3, 4), 0)
    with pytest.raises(InputError, match="at least 1, got 0"):
        generate_all(target, [Request(ints(3), Autoregressive)], max_new_tokens=0, batch_size=2)
