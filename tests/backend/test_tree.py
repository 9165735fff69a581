import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasc._native import greedy_path
from tasc.backend.tree import ancestor_bits, tree_inputs
from tasc.errors import InputError


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@st.composite
def trees(draw: st.DrawFn) -> np.ndarray:
    n = draw(st.integers(0, 140))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return np.array([rng.integers(-1, i) if i else -1 for i in range(n)], np.int32)


def ancestors(parents: np.ndarray, node: int) -> set[int]:
    found = set()
    while node >= 0:
        found.add(node)
        node = int(parents[node])
    return found


@given(trees())
@example(ints())
@example(np.arange(-1, 64, dtype=np.int32))  # a chain of more than a word of bits
def test_masks_and_bits_say_who_descends_from_whom(parents):
    bits, depths = ancestor_bits(parents)
    assert bits.shape == (len(parents), -(-len(parents) // 64))
    mask, offsets = tree_inputs(parents)
    assert mask[0].tolist() == [True] + [False] * len(parents)
    assert offsets[0] == 0
    for node in range(len(parents)):
        seen = ancestors(parents, node)
        words = bits[node].view(np.uint8)
        held = np.flatnonzero(np.unpackbits(words, bitorder="little"))
        assert set(held.tolist()) == seen
        assert set(np.flatnonzero(mask[node + 1]).tolist()) == {0} | {i + 1 for i in seen}
        assert offsets[node + 1] == depths[node] + 1 == len(seen)


MALFORMED = {
    "a cycle": (ints(1, 0), "node 0 has parent 1"),
    "its own parent": (ints(-1, 1), "node 1 has parent 1"),
    "a parent after its child": (ints(-1, 2, 0), "node 1 has parent 2"),
    "a parent below -1": (ints(-2), "node 0 has parent -2"),
    "too many nodes": (np.arange(-1, 4096, dtype=np.int32), "4097 nodes: at most 4096"),
}


@pytest.mark.parametrize(("parents", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_trees_are_refused(parents, message):
    n = len(parents)
    for call in (
        lambda: ancestor_bits(parents),
        lambda: tree_inputs(parents),
        lambda: greedy_path(np.zeros(n, np.int32), parents, np.zeros(n + 1, np.int32)),
    ):
        with pytest.raises((InputError, ValueError), match=message):
            call()


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="1 tokens and 2 arg-max ids, got 2 and 2"):
        greedy_path(ints(1, 2), ints(-1), ints(0, 0))
