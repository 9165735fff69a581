"""The sliding window of MicroSpec: its definition, the torch twin and the kernels."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.decoding.drafters.heads.draft_vocab.window import NativeWindow, TorchWindow, window
from tasc.errors import InputError
from tests.decoding.window import vocabularies


def ints(values) -> torch.Tensor:
    return torch.tensor(np.asarray(values, np.int32))


def random_stream(rng: np.random.Generator):
    """A vocabulary, a window, a prompt with its candidates, and a few steps."""
    vocabulary, size = int(rng.integers(1, 60)), int(rng.integers(1, 40))

    def some(most: int) -> list[int]:
        return rng.integers(0, vocabulary, rng.integers(0, most)).tolist()

    steps = [(some(30), some(12)) for _ in range(rng.integers(1, 4))]
    return vocabulary, size, some(50), some(60), steps


def test_a_worked_example():
    steps = vocabularies([5, 5, 7], [7, 9, 9], [([1, 1, 2], [2, 3]), ([4], [])], size=5)
    # 5 5 7 | 7 9 | 1 2 | 2 3 | 4
    assert list(steps) == [{5, 7, 9}, {9, 1, 2, 3}, {1, 2, 3, 4}]


@pytest.mark.parametrize("kind", [NativeWindow, pytest.param(TorchWindow, marks=pytest.mark.slow)])
def test_the_window_is_its_definition_for_10_000_random_streams(kind):
    rng = np.random.default_rng(0)
    for _ in range(10_000):
        vocabulary, size, prompt, top, steps = random_stream(rng)
        found = kind(vocabulary, size)
        found.push(ints(prompt), unique=False)
        expected = vocabularies(prompt, top, steps, size)
        for drafted, candidates in [([], top), *steps]:
            found.push(ints(drafted), unique=True)
            found.push(ints(candidates), unique=True)
            held = found.ids[found.ids >= 0].tolist()
            assert len(held) == len(set(held))
            assert set(held) == next(expected)


pushes = st.lists(st.tuples(st.lists(st.integers(-2, 22), max_size=40), st.booleans()), max_size=8)


@given(pushes, st.integers(1, 25), st.sampled_from([torch.float32, torch.bfloat16]))
@settings(max_examples=200, deadline=None)
def test_kernels_equal_the_torch_twin_slot_by_slot(steps, size, dtype):
    weight = torch.arange(20 * 3).view(20, 3).to(dtype)
    twins: tuple[Any, Any] = TorchWindow(20, size), NativeWindow(20, size)
    buffers = torch.zeros(size, 3, dtype=dtype), torch.zeros(size, 3, dtype=dtype)
    for tokens, unique in steps:
        for one, buffer in zip(twins, buffers, strict=True):
            one.push(ints(tokens), unique)
            one.gather(weight, buffer)
        slow, fast = twins
        assert torch.equal(slow.ids, fast.ids)
        assert torch.equal(slow.held, fast.held)
        assert torch.equal(*buffers)
        used = slow.ids >= 0
        assert torch.equal(buffers[1][used], weight[slow.ids[used].long()])
        assert (slow.extent, slow.active) == (fast.extent, fast.active)


@pytest.mark.gpu
@pytest.mark.parametrize("d", [3, 8, 1000, 4096])
def test_on_the_device_it_is_the_same_slot_by_slot(d):
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA device")
    rng, vocabulary, size = np.random.default_rng(d), 2000, 700
    weight = torch.randn(vocabulary, d).to(torch.bfloat16)
    on_device, held = weight.cuda(), torch.zeros(size, d, dtype=weight.dtype)
    buffer = held.cuda()
    twin, found = TorchWindow(vocabulary, size), window(vocabulary, size, torch.device("cuda"))
    assert isinstance(found, NativeWindow)
    for count, unique in ((0, True), (1500, False), (60, True), (3, True), (5000, True)):
        tokens = ints(rng.integers(-2, vocabulary + 2, count))
        twin.push(tokens, unique)
        found.push(tokens.cuda(), unique)
        twin.gather(weight, held)
        found.gather(on_device, buffer)
        assert torch.equal(found.ids.cpu(), twin.ids)
        assert torch.equal(buffer.cpu(), held)
        assert (found.extent, found.active) == (twin.extent, twin.active)


def test_only_rows_that_entered_are_copied():
    weight, buffer = torch.ones(9, 4), torch.zeros(4, 4)
    found = window(9, 4, torch.device("cpu"))
    found.push(ints([1, 2, 3]), unique=False)
    found.gather(weight, buffer)
    weight.fill_(2)
    found.push(ints([2, 5]), unique=False)  # 1 falls out, 5 takes its slot, 2 and 3 keep theirs
    found.gather(weight, buffer)
    assert found.ids.tolist() == [5, 2, 3, -1]
    assert buffer[:, 0].tolist() == [2, 1, 1, 0]
    assert (found.extent, found.active) == (3, 3)


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="at least 1 token"):
        window(9, 0, torch.device("cpu"))
    with pytest.raises(InputError, match="one-dimensional and int32"):
        NativeWindow(6, 3).push(torch.tensor([1]), unique=True)
    with pytest.raises(InputError, match="contiguous"):
        NativeWindow(6, 3).push(ints([1, 2, 3, 4])[::2], unique=True)
    one = NativeWindow(6, 3)
    with pytest.raises(InputError, match="must be contiguous and of one dtype"):
        one.gather(torch.ones(6, 2), torch.zeros(3, 2, dtype=torch.bfloat16))
    with pytest.raises(InputError, match=r"has shape \(2, 8\)"):
        one.gather(torch.ones(6, 2), torch.zeros(2, 2))
    one.push(ints([5]), unique=True)
    with pytest.raises(InputError, match="asks for row 5 of 4"):
        one.gather(torch.ones(4, 2), torch.zeros(3, 2))
