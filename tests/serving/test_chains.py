"""Chains drafted alone and told-apart sequences, each against its slow twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc._native import sequence_tails
from tasc.decoding.drafters import Resources
from tasc.decoding.drafters.ngram import tasc_spec
from tasc.decoding.drafters.ngram.index import build_index
from tasc.serving.drafts.batch import one_by_one, together
from tasc.serving.drafts.proposer import TAIL, ChainProposer, Sizes, keys
from tests.serving.engine import Engine

END = 9
token = st.integers(0, 4)
samples = st.lists(st.lists(token, min_size=1, max_size=12), min_size=1, max_size=8)


def arrays(texts):
    return [np.array(text, np.int32) for text in texts]


@given(
    samples,
    st.lists(samples, max_size=2),
    st.lists(st.lists(token, max_size=12), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.sampled_from([0.0, 0.2, 0.7]),
    st.sampled_from([(0.5, 0.7), (0.0, 0.0), (0.0, 0.5)]),
    st.integers(1, 6),
)
@settings(max_examples=100, deadline=None)
def test_a_chain_is_the_first_path_of_the_tree(
    ended, corpora, sequences, min_probability, least, gain, n_max
):
    """Ties included: texts of few words have many continuations of one probability."""
    options = tasc_spec.TascSpecOptions(
        n_max=n_max,
        width=1,
        adapt=True,
        corpus=bool(corpora),
        min_probability=min_probability,
        gain=gain[0],
        prompt_discount=gain[1],
    )
    indexes = [build_index(arrays(texts), END, options) for texts in corpora]
    factory = tasc_spec.prepare(Resources([], END, indexes=indexes), options)
    learnt = factory()
    for text in ended:
        learnt.start(np.array([1], np.int32))
        learnt.observe(np.array([*text, END], np.int32))
    drafters = [factory() for _ in sequences]
    for drafter, sequence in zip(drafters, sequences, strict=True):
        drafter.start(np.array(sequence, np.int32))
    for budget in (0, 1, 7):
        budgets, nothing = [budget] * len(drafters), [[]] * len(drafters)
        slow = one_by_one(drafters, nothing, budgets, least)
        assert together(drafters, nothing, budgets, least) == slow


def slow_keys(tokens, rows, lengths):
    pairs = zip(rows, lengths, strict=True)
    return [(n, tokens[row, max(n - TAIL, 0) : n].astype(np.int32).tobytes()) for row, n in pairs]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sequences_are_told_apart_as_slowly(dtype):
    tokens = np.random.default_rng(0).integers(0, 9, (5, 200)).astype(dtype)
    rows, lengths = [4, 0, 0, 3, 1], [200, 64, 65, 0, 7]
    assert keys(tokens, rows, lengths) == slow_keys(tokens, rows, lengths)
    assert keys(tokens[:, ::2], [2], [90]) == slow_keys(tokens[:, ::2], [2], [90])
    assert keys(tokens, [], []) == []


@pytest.mark.parametrize(("rows", "lengths"), [([5], [1]), ([0], [201]), ([0, 1], [3])])
def test_what_lies_outside_the_rows_is_refused(rows, lengths):
    with pytest.raises(ValueError, match="row"):
        sequence_tails(np.zeros((5, 200), np.int32), rows, lengths, 64)


def test_drafters_of_ended_sequences_begin_others():
    made = []

    def factory():
        options = tasc_spec.TascSpecOptions(width=1, corpus=False)
        made.append(tasc_spec.TascSpec([], END, options))
        return made[-1]

    rng = np.random.default_rng(1)
    engine = Engine(ChainProposer(factory, END, Sizes(8, 400, 4)), 2)
    engine.run((rng.integers(4, 9, 9), [*rng.integers(4, 9, 12), END]) for _ in range(20))
    assert len(made) <= 1 + 4  # one tells how drafters are asked
