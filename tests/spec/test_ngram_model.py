import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc._native import LocalTable, NgramIndex, draft_tree
from tasc._native import mixture as native_mixture
from tests.oracles import NgramTables, best_tree_mass, mixture

token = st.integers(0, 4)
samples = st.lists(st.lists(token, min_size=1, max_size=12), min_size=1, max_size=8)


def build(texts: list[list[int]], n_max: int, p_min: int) -> NgramIndex:
    tokens = np.array([t for s in texts for t in s], np.int32)
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return NgramIndex(tokens, offsets, np.ones(len(texts), np.int64), n_max, p_min)


def local_table(sequence: list[int], n_max: int) -> LocalTable:
    table = LocalTable(n_max)
    table.extend(np.array(sequence, np.int32))
    return table


@given(samples, st.lists(token, max_size=20), st.integers(1, 4), st.integers(1, 3), st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_mixture_equals_the_slow_definition(texts, sequence, n_max, p_min, lam):
    index, local = build(texts, n_max, p_min), local_table(sequence, n_max)
    assert index.check_integrity() is None
    slow = NgramTables(texts, n_max, p_min), NgramTables([sequence], n_max, 1)
    law = native_mixture(index, local, np.array(sequence, np.int32), lam, 99)
    expected = mixture(*slow, sequence, lam)
    assert {t for t, _ in law} == set(expected)
    assert dict(law) == pytest.approx(expected)
    assert [p for _, p in law] == sorted((p for _, p in law), reverse=True)


@given(samples, st.lists(token, min_size=1, max_size=12), st.integers(1, 10))
@settings(max_examples=60, deadline=None)
def test_tree_has_the_largest_expected_accepted_length(texts, sequence, budget):
    index, local = build(texts, 3, 1), local_table(sequence, 3)
    tokens, parents, probabilities = draft_tree(index, local, 0.75, budget, 0, 0.0, -1)
    slow = NgramTables(texts, 3, 1), NgramTables([sequence], 3, 1)
    assert probabilities.sum() == pytest.approx(
        best_tree_mass(*slow, sequence, 0.75, budget), rel=1e-5
    )
    paths = [[*sequence]]  # each node's probability is its parent's times its own
    for node, parent in zip(tokens.tolist(), parents.tolist(), strict=True):
        paths.append([*paths[parent + 1], node])
    for i, parent in enumerate(parents.tolist()):
        law = mixture(*slow, paths[parent + 1], 0.75)
        before = probabilities[parent] if parent >= 0 else 1.0
        assert probabilities[i] == pytest.approx(before * law[int(tokens[i])], rel=1e-5)


def test_width_one_gives_a_chain_and_an_end_token_has_no_children():
    index, local = build([[1, 2, 3, 4, 0, 1, 2]], 3, 1), local_table([1], 3)
    tokens, parents, _ = draft_tree(index, local, 0.75, 6, 1, 0.0, 0)
    assert tokens.tolist() == [2, 3, 4, 0]
    assert parents.tolist() == [-1, 0, 1, 2]


def test_improbable_paths_are_not_proposed():
    index, local = build([[1, 2], [1, 2], [1, 2], [1, 3]], 2, 1), local_table([1], 2)
    bounded, everything = (draft_tree(index, local, 1.0, 9, 0, p, -1)[2] for p in (0.3, 0.0))
    assert bounded.tolist() == [p for p in everything.tolist() if p >= 0.3]
    assert 0 < len(bounded) < len(everything)


def test_arrays_of_another_type_are_refused_instead_of_copied():
    with pytest.raises(TypeError, match="int32"):
        NgramIndex(np.zeros(3), np.array([0, 3]), np.array([1]), 2, 1)
    with pytest.raises(ValueError, match="weights"):
        NgramIndex(np.zeros(3, np.int32), np.array([0, 3]), np.array([1, 1]), 2, 1)


def test_a_mark_is_context_and_never_proposed():
    index, local = build([[-2, 1, 2]], 2, 1), local_table([4, 3, 4, 3, -2], 2)
    assert draft_tree(index, local, 0.5, 3, 1, 0.0, -1)[0].tolist() == [1, 2, 1]
    again = local_table([4, 3, -2, 4, 3], 2)
    proposed = native_mixture(index, again, np.array([4, 3], np.int32), 0.5, 9)
    assert all(token >= 0 for token, _ in proposed)
