import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.errors import InputError
from tasc.models.cache import compact, compact_reference


@st.composite
def caches(draw):
    outer, rows, heads, d = (draw(st.integers(1, n)) for n in (2, 4, 3, 9))
    positions = draw(st.integers(1, 12))
    moves = []
    for row in range(rows):
        length = draw(st.integers(0, positions - 1))
        start = draw(st.integers(length, positions - 1))
        kept = draw(st.sets(st.integers(start, positions - 1), max_size=6))
        moves += [(row, position, length + i) for i, position in enumerate(sorted(kept))]
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.uint8]))
    shape = (outer, rows, heads, positions, d)
    data = (torch.arange(np.prod(shape)) % 251).reshape(shape).to(dtype)
    return data, np.array(moves, np.int32).reshape(-1, 3)


@given(caches())
@settings(max_examples=150, deadline=None)
def test_compaction_equals_its_definition(case):
    data, moves = case
    expected = data.clone()
    compact_reference(expected, moves)
    compact(data, moves)
    assert torch.equal(data, expected)


@pytest.mark.parametrize(
    "moves",
    [
        [(0, 1, 2)],
        [(0, 2, 1), (0, 2, 2)],
        [(0, 2, 1), (0, 3, 1)],
        [(1, 2, 1), (0, 3, 1)],
        [(0, 4, 1)],
        [(0, 1, -1)],
        [(2, 1, 0)],
        [(-1, 1, 0)],
    ],
)
def test_moves_that_do_not_rise_inside_are_refused(moves):
    data = torch.arange(24.0).reshape(2, 1, 4, 3)
    before = data.clone()
    with pytest.raises(InputError, match="moves go down, rise within their row, and stay inside"):
        compact(data, np.array(moves, np.int32))
    assert torch.equal(data, before)


def test_a_cache_that_is_not_contiguous_is_refused():
    with pytest.raises(InputError, match="contiguous"):
        compact(torch.zeros(2, 4, 3, 5).transpose(1, 2), np.array([(0, 1, 0)], np.int32))
