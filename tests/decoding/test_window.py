"""The sliding window of MicroSpec: its definition, its slots, and the kernels."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.decoding.drafters.heads.draft_vocab.window import Window
from tasc.errors import InputError
from tests.decoding.window import Slots, vocabularies


def ints(values) -> torch.Tensor:
    return torch.tensor(np.asarray(values, np.int32))


def test_a_worked_example():
    steps = vocabularies([5, 5, 7], [7, 9, 9], [([1, 1, 2], [2, 3]), ([4], [])], size=5)
    # 5 5 7 | 7 9 | 1 2 | 2 3 | 4
    assert list(steps) == [{5, 7, 9}, {9, 1, 2, 3}, {1, 2, 3, 4}]


pushes = st.lists(st.tuples(st.lists(st.integers(-2, 22), max_size=40), st.booleans()), max_size=8)


@given(pushes, st.integers(1, 25), st.sampled_from([torch.float32, torch.bfloat16]), st.booleans())
@settings(max_examples=500, deadline=None)
def test_it_has_these_slots_with_and_without_kernels(steps, size, dtype, native):
    weight, buffer = torch.arange(60).view(20, 3).to(dtype), torch.zeros(size, 3, dtype=dtype)
    twin, found = Slots(20, size), Window(20, size)
    found.native = native
    for tokens, unique in steps:
        twin.push(tokens, unique)
        found.push(ints(tokens), unique)
        found.gather(weight, buffer)
        twin.check(found, weight, buffer)


@pytest.mark.gpu
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("d", [3, 8, 1000, 4096])
def test_on_the_device_it_is_the_same_slot_by_slot(d, native):
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA device")
    rng, vocabulary, size = np.random.default_rng(d), 2000, 700
    weight = torch.randn(vocabulary, d).to(torch.bfloat16).cuda()
    buffer = torch.zeros(size, d, dtype=weight.dtype).cuda()
    twin, found = Slots(vocabulary, size), Window(vocabulary, size, "cuda" if native else "cpu")
    found.native = native
    for count, unique in ((0, True), (1500, False), (60, True), (3, True), (5000, True)):
        tokens = ints(rng.integers(-2, vocabulary + 2, count))
        twin.push(tokens.tolist(), unique)
        found.push(tokens.cuda(), unique)
        found.gather(weight, buffer)
        twin.check(found, weight.cpu(), buffer.cpu())


def test_only_rows_that_entered_are_copied():
    weight, buffer = torch.ones(9, 4), torch.zeros(4, 4)
    found = Window(9, 4)
    found.push(ints([1, 2, 3]), unique=False)
    found.gather(weight, buffer)
    weight.fill_(2)
    found.push(ints([2, 5]), unique=False)  # 1 falls out, 5 takes its slot, 2 and 3 keep theirs
    found.gather(weight, buffer)
    assert found.ids.tolist() == [5, 2, 3, -1]
    assert buffer[:, 0].tolist() == [2, 1, 1, 0]
    assert found.extent == 3


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="at least 1 token"):
        Window(9, 0)
    with pytest.raises(InputError, match="one-dimensional and int32"):
        Window(6, 3).push(torch.tensor([1]), unique=True)
    with pytest.raises(InputError, match="contiguous"):
        Window(6, 3).push(ints([1, 2, 3, 4])[::2], unique=True)
    one = Window(6, 3)
    with pytest.raises(InputError, match="must be contiguous and of one dtype"):
        one.gather(torch.ones(6, 2), torch.zeros(3, 2, dtype=torch.bfloat16))
    with pytest.raises(InputError, match=r"has shape \(2, 8\)"):
        one.gather(torch.ones(6, 2), torch.zeros(2, 2))
    one.push(ints([5]), unique=True)
    with pytest.raises(InputError, match="asks for row 5 of 4"):
        one.gather(torch.ones(4, 2), torch.zeros(3, 2))
