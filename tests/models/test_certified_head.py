"""A certified head finds the largest logits of the whole head, whatever the rows and states are."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tasc import _native
from tasc.decoding.core.resources import Resources
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import parse
from tasc.models import certified_head, packed
from tasc.models.certified_head import CertifiedHead, TopLogits
from tasc.models.packed import DTYPES, PackedLinear, native_threads, pack
from tasc.models.target import Target
from tests.pico import build_model

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def head_of(weight):
    rows, width = weight.shape
    linear = nn.Linear(width, rows, bias=False, dtype=weight.dtype).requires_grad_(False)
    linear.weight.copy_(weight)
    return CertifiedHead(PackedLinear(linear))


def check(head, states, count=1):
    """Compare ids and bits with the sorted logits; return the states without a certificate."""
    ids, logits, _ = head.largest(states, count)
    everything = head.linear(states).float()
    values, order = everything.sort(dim=1, descending=True, stable=True)
    certified = torch.from_numpy(ids[:, 0] >= 0)
    assert torch.equal(torch.from_numpy(ids)[certified], order[certified, :count].int())
    assert torch.equal(torch.from_numpy(logits)[certified], values[certified, :count])
    return (~certified).nonzero()[:, 0].tolist()


def normal(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))


@dtypes
@settings(deadline=None)
@given(data=st.data())
def test_the_largest_logits_are_those_of_the_whole_head(dtype, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    k, n = data.draw(st.integers(1, 70)), data.draw(st.integers(8, 400))
    weight, states = normal(rng, n, k), normal(rng, data.draw(st.integers(1, 70)), k)
    scales = st.sampled_from([0.0, 1e-44, 1e-20, 1e-3, 1.0, 100.0, 1e8])
    for tensor in (weight, states):  # some rows and elements are much larger, or equal
        tensor[rng.integers(len(tensor))] *= data.draw(scales)
        tensor[:, rng.integers(k)] *= data.draw(scales)
        tensor[rng.integers(len(tensor))] = tensor[rng.integers(len(tensor))]
    weight[rng.integers(n, size=n // 2)] = weight[0] * (1 + data.draw(st.sampled_from([0, 1e-7])))
    head = head_of(weight.to(dtype))
    assert check(head, states.to(dtype), data.draw(st.integers(1, 8))) == []


def error_in_8_bits(x):
    return x - (x * (127 / x.abs().max())).round() * (x.abs().max() / 127)


def worst_row(rng, k):
    """Return a row whose error in 8 bits points along a state without one, and a rival."""
    row = normal(rng, k)
    error = error_in_8_bits(row)
    state = error.sign()
    logit = float(row @ state) - 0.05 * float(error.abs().sum())
    return row, state, state * logit / float(state @ state)


def worst_state(rng, k):
    """Return a state whose error in 8 bits points along a row without one, and a rival."""
    state = torch.from_numpy(rng.uniform(-1, 1, k).astype(np.float32))
    state[::4] = state[::4].sign()  # the largest element of each step, so that none has a high part
    error = error_in_8_bits(state)
    row, rival, least = error.sign(), torch.zeros(k), int((error / state).abs().argmin())
    rival[least] = (float(row @ state) - 0.05 * float(error.abs().sum())) / state[least]
    return row, state, rival


@pytest.mark.parametrize("worst", [worst_row, worst_state])
@settings(deadline=None)
@given(seed=st.integers(0, 2**32), k=st.integers(8, 80))
def test_a_row_is_found_where_its_error_is_nearly_the_bound(worst, seed, k):
    """The logit of row 0 is the largest, but in 8 bits it is too small by most of the bound.

    The rivals, in all other panels of 16 rows, are represented exactly and lie just below it.
    """
    row, state, rival = worst(np.random.default_rng(seed), k)
    weight = rival.repeat(12 * 16, 1)
    weight[1:16] *= -10 * float((rival @ state).sign())
    weight[0] = row
    head = head_of(weight)
    check(head, state[None])
    assert head.largest(state[None], 1)[0].tolist() == [[0]]


def test_a_row_is_found_whose_logit_is_rounded_up_to_the_largest():
    """In bfloat16, 8191 / 128 is 64, and the smaller id of two equal logits is the largest."""
    weight = torch.full((200, 128), 64.0)
    weight[:, 0], weight[:, 1] = 127, 1  # rows in 8 bits are exact
    weight[0, 1], weight[1:16] = 0, 0
    head = head_of((weight / 128).bfloat16())
    assert head.largest(torch.ones(1, 128, dtype=torch.bfloat16), 1)[0].tolist() == [[0]]


def adversarial(seed, states):
    """Return a head and states: rows nearly tied for each state, of very different norms."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(4, 65)), 16 * int(rng.integers(6, 16))
    x = normal(rng, states, k) * 10 ** normal(rng, states, 1)
    x[:, rng.integers(k, size=2)] *= 30  # outliers, as the states of language models have
    weight = normal(rng, 1, k) + normal(rng, n, k) * 10 ** float(rng.uniform(-8, -1))
    weight *= 1 + 1e-7 * normal(rng, n, 1).round()
    weight[rng.integers(n, size=4)] *= 10 ** (4 * normal(rng, 4, 1))
    x[:2] = torch.tensor([0.0, 1e-42])[:, None]
    return weight, x


def check_adversarial(heads, states):
    for seed in range(heads):
        weight, x = adversarial(seed, states)
        dtype = DTYPES[seed % 2]
        assert check(head_of(weight.to(dtype)), x.to(dtype), 1 + seed % 3) == []


def test_rows_that_are_nearly_tied_are_told_apart():
    check_adversarial(heads=20, states=100)


@pytest.mark.slow
def test_a_million_states_find_their_largest_logit_among_near_ties():
    check_adversarial(heads=1000, states=1000)


@dtypes
def test_states_and_rows_out_of_bounds_have_no_certificate(dtype):
    rng = np.random.default_rng(0)
    weight, states = normal(rng, 200, 24), normal(rng, 8, 24)
    states[1, 3], states[2, 0], states[3, 5] = torch.nan, torch.inf, -torch.inf
    states[5] *= 3e37  # sums could overflow
    assert check(head_of(weight.to(dtype)), states.to(dtype)) == [1, 2, 3, 5]
    for value in (torch.nan, torch.inf):
        weight[7, 7] = value
        with pytest.raises(ValueError, match="not finite"):
            head_of(weight.to(dtype))


def test_a_sequence_without_a_certificate_gets_all_logits():
    rng = np.random.default_rng(0)
    states = normal(rng, 3, 4, 24)
    states[1, 2] = torch.nan
    head = head_of(normal(rng, 200, 24))
    first, second, third = head.top(lambda: head.linear(states), [4, 3, 2], 2)
    assert isinstance(first, TopLogits)
    assert first.totals is not None
    assert (len(first), first.ids.shape, len(third)) == (4, (4, 2), 2)
    assert torch.equal(second.nan_to_num(), head.linear(states[1, :3]).nan_to_num())
    assert (head.linear(states[2, :2]).argmax(1) == torch.from_numpy(third.ids[:, 0])).all()


@dtypes
def test_totals_are_those_of_all_logits_up_to_the_error_of_8_bits(dtype):
    rng = np.random.default_rng(0)
    weight, states = normal(rng, 1000, 64).to(dtype), normal(rng, 9, 64).to(dtype) / 4
    head = head_of(weight)
    totals = head.largest(states, 8)[2]
    expected = head.linear(states).float().logsumexp(1).numpy()
    np.testing.assert_allclose(totals, expected, atol=0.02)


def test_threads_do_not_change_what_is_found(monkeypatch):
    rng = np.random.default_rng(0)
    states, head = normal(rng, 13, 32), head_of(normal(rng, 900, 32))
    alone = head.largest(states, 8)
    monkeypatch.setattr("tasc.models.packed.torch.get_num_threads", lambda: 3)
    monkeypatch.setattr("tasc.models.packed.torch.set_num_threads", lambda _count: None)
    with native_threads(head.linear):
        assert packed.thread_pool() is not None
        for own, other in zip(head.largest(states, 8), alone, strict=True):
            np.testing.assert_array_equal(own, other)


@pytest.fixture
def small_heads(monkeypatch):
    if _native.dense_instructions() not in certified_head.INSTRUCTIONS:
        pytest.skip("the whole head is used")
    monkeypatch.setattr(certified_head, "LEAST_ROWS", 0)
    monkeypatch.setattr(certified_head, "LEAST_WEIGHTS", 0)


@pytest.mark.usefixtures("small_heads")
@pytest.mark.parametrize("architecture", ["qwen2", "llama", "gemma2", "cohere", "granite", "phi"])
def test_models_that_change_logits_after_the_head_have_none(architecture):
    model = build_model(architecture)
    assert Target(model).head is None, "it is not packed"
    pack(model)
    assert (Target(model).head is None) == (architecture in {"gemma2", "cohere", "granite", "phi"})


def test_small_heads_have_none():
    model = build_model("llama")
    pack(model)
    assert Target(model).head is None


@pytest.mark.usefixtures("small_heads")
def test_a_head_in_8_bits_has_none():
    model = build_model("llama")
    pack(model, int8=True)
    assert Target(model).head is None
    with pytest.raises(ValueError, match="has no bias, no scales"):
        CertifiedHead(model.lm_head)


@pytest.mark.usefixtures("small_heads")
@dtypes
@pytest.mark.parametrize("method", ["ar", "tasc-spec", "prompt-lookup"])
@pytest.mark.parametrize("exact_share", [2.0, 0.0])
def test_outputs_are_those_of_all_logits(method, dtype, exact_share, monkeypatch):
    """Also where bounds leave too many rows, and all logits are computed from then on."""
    monkeypatch.setattr(certified_head, "_MOST_EXACT", exact_share)
    model = build_model("llama").to(dtype)
    pack(model)
    target, tokens = Target(model), np.arange(1, 60, dtype=np.int32)
    assert target.head is not None
    found = []
    for head in (target.head, None):
        monkeypatch.setitem(vars(target), "head", head)
        drafters = parse(method).prepare(Resources(outputs=[], target=target, end=0))
        requests = [Request(tokens[i : i + 9], drafters) for i in range(5)]
        made = generate_all(target, requests, max_new_tokens=30, batch_size=3)
        found.append([one.tokens.tolist() for one in made])
    assert found[0] == found[1]
