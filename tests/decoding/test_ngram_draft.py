from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasc._native import NgramIndex, NgramTable
from tasc.decoding.drafters.ngram.tasc_spec import Memory
from tests.decoding.ngrams import END, build, draft_of, memory_of, ngram_drafter, twin
from tests.decoding.scripted import ints, paths
from tests.oracles import MARK, Table, best_tree_mass, mixture

token = st.integers(0, 4)
samples = st.lists(st.lists(token, min_size=1, max_size=12), min_size=1, max_size=8)
# An index holds probabilities in 12 bits: this close to the definition. What is cut weighs 1/16.
CLOSE: dict[str, Any] = {"rel": 0.01, "abs": 0.01}
CUT = 1 / 16


def close(distribution, expected):
    missing = 0.0
    for t in set(distribution) | set(expected):
        found, true = distribution.get(t, 0), expected.get(t, 0)
        assert found < true or found == pytest.approx(true, **CLOSE), t
        missing += max(true - found, 0)
    assert missing < CUT + CLOSE["abs"]


@given(
    samples,
    st.lists(token, max_size=12),
    st.lists(token, max_size=12),
    st.integers(1, 5),
    st.sampled_from([1, 1, 2, 3]),
    st.sampled_from([(0.0, 0.0, 0.0), (0.8, 1.0, 0.7), (0.5, 0.0, 0.5), (0.9, 4.0, 0.0)]),
    st.floats(0, 1),
    st.sampled_from([0.0, 0.5, 1.0]),
)
@settings(max_examples=300, deadline=None)
def test_distribution_equals_the_slow_definition(
    texts, prompt, output, n_max, p_min, counts, lam, gain
):
    discount, strength, local = counts
    index = build(texts, n_max, discount, strength, p_min)
    assert index.check_integrity() is None
    made = ngram_drafter([index], prompt, output, n_max=n_max, lam=lam, gain=gain, discount=local)
    assert made.check_integrity() is None
    context = [*prompt, MARK, *output]
    table = Table([context], n_max, local)
    expected = mixture([twin(texts, n_max, discount, strength, p_min)], table, context, lam, gain)
    distribution = made.distribution()
    close(dict(distribution), expected)
    assert [p for _, p in distribution] == sorted((p for _, p in distribution), reverse=True)


@given(samples, samples, st.lists(token, max_size=8))
@settings(max_examples=60, deadline=None)
def test_two_corpora_share_the_corpus_side(first, second, output):
    made = ngram_drafter([build(first), build(second)], [1, 2], output)
    context = [1, 2, MARK, *output]
    expected = mixture([twin(first), twin(second)], Table([context], 4), context, 0.6, 0.5)
    close(dict(made.distribution()), expected)


@given(samples, st.lists(token, min_size=1, max_size=12), st.integers(1, 10))
@example([[3, 3], [1, 1, 3, 3], [1, 1, 3, 3]], [1, 1, 3, 3], 4)  # a third of a node is cut
@example([[0]], [0] * 5, 2)
@settings(max_examples=60, deadline=None)
def test_tree_has_the_largest_expected_accepted_length(texts, output, budget):
    draft = draft_of(ngram_drafter([build(texts)], [3, 1], output), budget)
    probabilities = draft.probabilities
    context = [3, 1, MARK, *output]
    slow = [twin(texts)], Table([context], 4), context, 0.6, 0.5
    least, most = (best_tree_mass(*slow, budget, END, missing) for missing in (CUT, 0.0))
    mass, tolerance = probabilities.sum(), CLOSE["abs"] + CLOSE["rel"] * most
    assert least - tolerance < mass < most + tolerance
    for i, ((*path, node), parent) in enumerate(zip(paths(draft), draft.parents, strict=True)):
        distribution = mixture(slow[0], slow[1], [*context, *path], 0.6, 0.5)
        before = probabilities[parent] if parent >= 0 else 1.0
        true = before * distribution[node]  # each is its parent's times its own
        assert probabilities[i] < true or probabilities[i] == pytest.approx(true, **CLOSE)
        assert true - probabilities[i] < before * CUT + CLOSE["abs"]


@given(samples, st.integers(1, 20))
def test_a_memory_holds_the_latest_outputs_within_its_limit(texts, limit):
    memory, table = Memory(3, limit), NgramTable(3)
    for text in texts:
        memory.add(ints(*text))
    fitting = [t for t in texts if len(t) <= limit]
    kept = [o.tolist() for o in memory.outputs]
    assert kept == fitting[len(fitting) - len(kept) :]
    assert bool(kept) == bool(fitting)
    assert memory.tokens == sum(map(len, kept)) <= limit
    for output in memory.outputs:
        table.add_output(output)
    assert len(memory.table) == len(table)


def test_a_memory_that_is_full_forgets_its_older_half():
    memory = Memory(3, 10)
    for i in range(11):
        memory.add(ints(i))
    assert np.concatenate(memory.outputs).tolist() == [6, 7, 8, 9, 10]


def test_without_discounts_the_longest_context_that_hits_decides_alone():
    index = build(
        [[1, 2, 3], [1, 2, 3], [5, 2, 4], [5, 2, 4], [5, 2, 4]], discount=0.0, strength=0.0
    )
    distribution = dict(ngram_drafter([index], [], [1, 2], gain=0.0, discount=0.0).distribution())
    assert distribution == pytest.approx({3: 1.0})
    backed_off = dict(ngram_drafter([index], [], [7, 2], gain=0.0, discount=0.0).distribution())
    assert backed_off == pytest.approx({3: 0.4, 4: 0.6}, rel=0.01)
    nothing = ngram_drafter([index], [], [8], gain=0.0, discount=0.0).distribution()
    assert nothing[0][0] == 2  # the most frequent token


def test_width_one_gives_a_chain_and_an_end_token_is_not_drafted():
    index = build([[1, 2, 3, 4]], discount=0.0, strength=0.0)
    tokens, parents, _ = ngram_drafter([index], [], [1], discount=0.0, width=1).draft(6)
    assert tokens.tolist() == [2, 3, 4]
    assert parents.tolist() == [-1, 0, 1]


def test_improbable_paths_are_not_proposed():
    index = build([[1, 2], [1, 2], [1, 2], [1, 3]])
    everything = ngram_drafter([index], [], [1]).draft(9)[2].tolist()
    bounded = ngram_drafter([index], [], [1], least=0.1).draft(9)[2].tolist()
    assert bounded == [p for p in everything if p >= 0.1]
    assert 0 < len(bounded) < len(everything)


def test_a_list_longer_than_the_ranked_part_proposes_its_most_probable_tokens():
    texts = [[1000, t] for t in range(1, 120) for _ in range(1 + t % 7)]
    index = build(texts, end=2000)
    assert index.check_integrity() is None
    made = ngram_drafter([index], [1000], [1000], end=2000)
    proposed = [t for t, _ in made.distribution()][:17]
    assert all(t % 7 == 6 for t in proposed)
    made.observe(ints(77))  # a token outside the ranked part is still followed
    assert made.distribution()[0][0] == 2000


def test_outputs_of_the_job_are_remembered_until_the_memory_is_emptied():
    memory = memory_of([])
    made = ngram_drafter([build([[1, 2]])], [3], [7], memory=memory)
    assert dict(made.distribution()).get(8, 0) == 0
    memory.add_output(ints(7, 8, END))
    assert memory.check_integrity() is None
    made.start(ints(3), True)
    made.observe(ints(7))
    assert made.distribution()[0][0] == 8
    memory.clear()  # what the drafter knew of it is no longer valid, and is not used
    assert dict(made.distribution()).get(8, 0) == 0


def test_arrays_and_options_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match="int32"):
        NgramIndex(np.zeros(3), np.array([0, 3]), 9, 2, 0.5, 0.0, 1, True)  # type: ignore[arg-type]
    for changed, word in (
        ({"n_max": 0}, "n_max"),
        ({"discount": 1.0}, "discount"),
        ({"strength": -1.0}, "strength"),
        ({"p_min": 0}, "min_count"),
        ({"end": -1}, "end token"),
    ):
        with pytest.raises(ValueError, match=word):
            build([[1, 2]], **changed)
    with pytest.raises(ValueError, match="token ids"):
        build([[1 << 20]])


def test_a_block_is_read_back_and_a_cut_one_is_refused():
    index = build([[1, 2, 3, 1, 2, 4], [1, 2, 3]])
    again = NgramIndex(index.block.copy())
    assert again.check_integrity() is None
    assert (
        ngram_drafter([again], [5], [1]).distribution()
        == ngram_drafter([index], [5], [1]).distribution()
    )
    with pytest.raises(ValueError, match="bytes"):
        NgramIndex(index.block[:-1].copy())
