"""Prompts that begin alike read the beginning once, and nothing else changes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.models.inputs import common_prefix
from tasc.models.packed import DTYPES, pack
from tasc.models.static import StaticTarget
from tasc.models.target import Target
from tasc.models.targets.fastest import target_for
from tests.models.test_packed import needs_packing
from tests.pico import build_model

NO_TREE = np.empty(0, np.int32), np.empty(0, np.int32)
TREE = np.array([7, 8, 9], np.int32), np.array([-1, -1, 1], np.int32)


def decode(target, prompts, steps=3):
    """Return all logits and hidden states of a prefill and of steps with and without a tree."""
    target.begin(80, len(prompts))
    found = [target.join(prompts, hidden=True)]
    found += [states[: len(p)] for states, p in zip(target.states, prompts, strict=True)]
    for step in range(steps):
        trees = [TREE if (step + row) % 2 else NO_TREE for row in range(len(prompts))]
        logits = target.score([5 + step] * len(prompts), trees)
        found += [own[: 1 + len(tree[0])] for own, tree in zip(logits, trees, strict=True)]
        target.keep([[1, 2] if len(tree[0]) else [] for tree in trees])
    return [x.clone() for x in found]


def tails(prefix, lengths):
    rng = np.random.default_rng(0)
    return [np.concatenate([prefix, rng.integers(1, 200, n)]).astype(np.int32) for n in lengths]


@needs_packing
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("architecture", ["qwen2", "llama", "mistral", "gemma", "gemma3_text"])
def test_a_shared_beginning_changes_no_bit_of_packed_models(architecture, dtype):
    model = build_model(architecture).to(dtype)
    pack(model)
    target, prefix = Target(model), np.arange(1, 24, dtype=np.int32)
    for lengths in ([9], [1, 17, 4]):
        prompts = tails(prefix, lengths)
        target.share(np.empty(0, np.int32))
        expected = decode(target, prompts)
        target.share(prefix)
        for found, plain in zip(decode(target, prompts), expected, strict=True):
            assert torch.equal(found, plain)


@pytest.mark.parametrize("static", [False, True])
def test_other_models_write_the_same(static):
    model = build_model("llama")
    target = StaticTarget(model, graphs=False) if static else Target(model)
    prompts = tails(np.arange(1, 24, dtype=np.int32), [3])
    expected = decode(target, prompts)
    target.share(prompts[0][:23])
    for found, plain in zip(decode(target, prompts), expected, strict=True):
        torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-4)


def test_prompts_that_begin_otherwise_are_read_whole():
    target, prefix = Target(build_model("llama")), np.arange(1, 24, dtype=np.int32)
    prompts = [prefix, prefix[:9], prefix[::-1].copy(), *tails(prefix, [2])]
    expected = [target.prefill(prompt, 4).clone() for prompt in prompts]
    target.share(prefix)
    for prompt, logits in zip(prompts[:3], expected, strict=False):
        assert torch.equal(target.prefill(prompt, 4), logits)
    forwards = []
    target.model.get_input_embeddings().register_forward_hook(
        lambda _m, args, _out: forwards.append(args[0].shape[1])
    )
    target.prefill(prompts[3], 4)
    assert forwards == [2]


def test_a_recurrent_state_is_not_shared():
    target = target_for(build_model("lfm2"))
    target.share(np.arange(1, 24, dtype=np.int32))
    assert target.prefix is None


@settings(max_examples=50)
@given(
    prompts=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=4)
)
def test_the_common_prefix_is_the_longest_that_leaves_each_prompt_a_token(prompts):
    found = common_prefix([np.array(prompt, np.int32) for prompt in prompts]).tolist()
    shared = [
        length
        for length in range(4, 12)
        if all(len(p) > length and p[:length] == prompts[0][:length] for p in prompts)
    ]
    assert found == prompts[0][: max(shared, default=0) if len(prompts) > 1 else 0]
