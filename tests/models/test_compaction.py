import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.errors import InputError
from tasc.models.compaction import compact_reference


@st.composite
def caches(draw):
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 9)))
    positions = draw(st.integers(1, 12))
    start = draw(st.integers(0, positions))
    path = sorted(draw(st.sets(st.integers(0, max(positions - start - 1, 0)), max_size=8)))
    path = [p for p in path if start + p < positions]
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.uint8]))
    blocks, heads, d = shape
    data = torch.arange(blocks * heads * positions * d).reshape(blocks, heads, positions, d)
    return (data % 251).to(dtype), start, torch.tensor(path, dtype=torch.int32)


@given(caches())
@settings(max_examples=150, deadline=None)
def test_compaction_equals_its_definition(case):
    data, start, path = case
    expected = data.clone()
    compact_reference(expected, start, path)
    torch.ops.tasc.compact_kv(data, start, path)
    assert torch.equal(data, expected)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def test_the_operator_is_what_torch_expects_of_it():
    data = torch.arange(24.0).reshape(2, 4, 3)
    torch.library.opcheck(torch.ops.tasc.compact_kv, (data, 1, ints(0, 2)))


@pytest.mark.parametrize("path", [ints(1, 1), ints(2, 1), ints(-1), ints(3)])
def test_a_path_that_does_not_rise_inside_is_refused(path):
    data = torch.arange(24.0).reshape(2, 4, 3)
    before = data.clone()
    with pytest.raises(InputError, match="a path rises and stays inside"):
        torch.ops.tasc.compact_kv(data, 1, path)
    assert torch.equal(data, before)


def test_a_cache_that_is_not_contiguous_is_refused():
    with pytest.raises(InputError, match="contiguous"):
        torch.ops.tasc.compact_kv(torch.zeros(2, 4, 3).transpose(1, 2), 0, ints(0))
