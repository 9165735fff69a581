from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.errors import InputError
from tasc.training.core.batch import (
    IGNORED,
    Examples,
    collate,
    cut_for_cpu,
    encode_examples,
    pack_blocks,
    plan_epoch,
)
from tasc.training.core.schedule import Schedule
from tests import pico
from tests.training.samples import rows


def row(data: Examples, i: int) -> tuple[list[int], list[bool]]:
    tokens, targets = rows(data)[i]
    return tokens.tolist(), targets.tolist()


def ids(tokenizer, text: str) -> list[int]:
    return tokenizer.encode([text]).tokens.tolist()


def test_the_loss_is_on_the_output_and_the_end_token_only(tokenizer):
    data = encode_examples(tokenizer, ["play jazz\n"], ["intent: play"], 100)
    prompt, output = ids(tokenizer, "play jazz\n"), ids(tokenizer, "intent: play")
    tokens, targets = row(data, 0)
    assert tokens == [*prompt, *output, tokenizer.eos_id]
    assert targets == [False] * len(prompt) + [True] * (len(output) + 1)


def test_a_base_model_learns_the_prompt_too_all_but_its_first_token(tokenizer):
    data = encode_examples(tokenizer, ["play\n"], ["x"], 100, learn_prompts=True)
    assert row(data, 0)[1] == [False] + [True] * (len(data.tokens) - 1)


def test_a_long_example_loses_the_beginning_of_its_prompt(tokenizer):
    prompt, output = "wake me up at nine\n", "intent: alarm"
    answer = [*ids(tokenizer, output), tokenizer.eos_id]
    data = encode_examples(tokenizer, [prompt], [output], len(answer) + 3)
    tokens, targets = row(data, 0)
    assert tokens == ids(tokenizer, prompt)[-3:] + answer
    assert targets == [False] * 3 + [True] * len(answer)
    assert data.cut == 1


def test_an_output_that_does_not_fit_loses_its_end_and_is_not_told_to_stop(tokenizer):
    output = "intent: alarm_set, slot fills: {}"
    data = encode_examples(tokenizer, ["wake me up\n"], [output], 6)
    tokens, targets = row(data, 0)
    assert tokens == ids(tokenizer, "wake me up\n")[-1:] + ids(tokenizer, output)[:5]
    assert targets == [False] + [True] * 5


def test_no_examples_are_refused(tokenizer):
    with pytest.raises(InputError, match="no examples"):
        encode_examples(tokenizer, [], [], 10)


def test_a_first_token_cannot_be_a_target():
    one = np.ones(3, dtype=np.int32)
    with pytest.raises(ValueError, match="first token"):
        Examples(one, one.astype(bool), np.arange(3), np.array([0, 3]))


def test_collate_pads_on_the_right_and_marks_the_targets(tokenizer):
    data = encode_examples(tokenizer, ["ab", "abcdef", "0123456789"], ["xy", "z", "9" * 40], 100)
    batch = collate(data, np.array([0, 1]))
    assert batch.input_ids.shape[1] % 8 == 0
    longest = data.lengths[2]  # which may fill the model's positions
    assert longest % 8
    assert collate(data, np.array([0, 2])).input_ids.shape[1] == longest
    assert batch.position_ids is None
    for i in range(2):
        tokens, targets = row(data, i)
        assert batch.input_ids[i, : len(tokens)].tolist() == tokens
        expected = [t if wanted else IGNORED for t, wanted in zip(tokens, targets, strict=True)]
        assert batch.labels[i, : len(tokens)].tolist() == expected
        assert (batch.labels[i, len(tokens) :] == IGNORED).all()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=200),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_an_epoch_visits_every_row_once_in_the_promised_number_of_steps(lengths, micro, per, seed):
    steps = plan_epoch(np.array(lengths), micro, micro * per, seed, epoch=1)
    seen = [int(i) for step in steps for batch in step for i in batch]
    assert sorted(seen) == list(range(len(lengths)))
    assert len(steps) == Schedule(1.0, micro, micro * per).epoch_steps(len(lengths))
    assert all(len(batch) <= micro for step in steps for batch in step)


def test_the_order_follows_from_the_seed_and_differs_between_epochs():
    lengths = np.arange(100) % 7 + 1

    def order(seed: int, epoch: int) -> list[int]:
        steps = plan_epoch(lengths, 4, 8, seed, epoch)
        return [int(i) for step in steps for batch in step for i in batch]

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)


def test_rows_of_like_length_share_a_batch():
    lengths = np.random.default_rng(0).integers(1, 200, 640)
    steps = plan_epoch(lengths, 8, 64, 0, 0)
    padded = sum(len(b) * lengths[b].max() for step in steps for b in step)
    assert padded < 1.1 * lengths.sum()
    spread = [np.std([lengths[b].mean() for b in step]) for step in steps]
    assert np.mean(spread) > 30  # while lengths still mix within a step


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(2, 30), min_size=1, max_size=20), st.integers(4, 40), st.integers(0, 9))
def test_packing_keeps_every_token_and_restarts_positions_at_each_document(sizes, length, seed):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    tokens = np.arange(offsets[-1], dtype=np.int32)
    positions = np.concatenate([np.arange(n, dtype=np.int32) for n in sizes])
    data = Examples(tokens, positions > 0, positions, offsets)
    packed = pack_blocks(data, length, seed)
    assert sorted(packed.tokens.tolist()) == tokens.tolist()
    assert (packed.lengths[:-1] == length).all()
    assert (packed.positions[packed.offsets[:-1]] == 0).all()
    document = np.repeat(np.arange(len(sizes)), sizes)
    for (row_tokens, targets), own in zip(
        rows(packed), np.split(packed.positions, packed.offsets[1:-1]), strict=True
    ):
        owners = document[row_tokens]
        same = owners[1:] == owners[:-1]
        assert (own[1:][same] == own[:-1][same] + 1).all()
        assert (own[1:][~same] == 0).all()
        assert (targets == (own > 0)).all()


def test_packed_documents_do_not_see_each_other(tokenizer):
    texts = ["play some jazz music\n", "wake me up\n", "turn the lights off\n"]
    data = encode_examples(tokenizer, texts, ["a", "b", "c"], 100, learn_prompts=True)
    model = pico.build_model()
    packed = pack_blocks(data, 1000, seed=0)
    batch = collate(packed, np.array([0]))
    ids, positions = batch.input_ids, batch.position_ids
    with torch.no_grad():
        together = model(input_ids=ids, position_ids=positions, use_cache=False).logits[0]
    starts = [*np.flatnonzero(packed.positions == 0).tolist(), len(packed.tokens)]
    for start, stop in pairwise(starts):
        with torch.no_grad():
            alone = model(input_ids=ids[:, start:stop]).logits[0]
        torch.testing.assert_close(together[start:stop], alone, atol=1e-4, rtol=1e-4)


def test_parts_contain_every_example_once_and_have_similar_lengths_and_tokens():
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 300, 200)
    indices = rng.permutation(200)[:32]
    parts = cut_for_cpu(lengths, indices)
    assert sorted(np.concatenate(parts)) == sorted(indices)
    assert len(parts) == len(set(map(tuple, parts))) > 1
    ordered = [lengths[part] for part in parts]
    assert all(first.max() <= second.min() for first, second in pairwise(ordered))
    assert max(len(part) * lengths[part].max() for part in parts) <= 3 * lengths.max()


def test_a_small_batch_stays_together_and_a_long_example_is_a_part():
    lengths = np.array([4, 8, 5000])
    assert [part.tolist() for part in cut_for_cpu(lengths, np.array([1, 0]))] == [[0, 1]]
    assert [part.tolist() for part in cut_for_cpu(lengths, np.array([2]))] == [[2]]
    assert [part.tolist() for part in cut_for_cpu(lengths, np.array([0, 2, 1]))][-1] == [2]
