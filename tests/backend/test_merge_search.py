"""The native merge search against the reference, and both against worked examples."""

import dataclasses
import math
import signal
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc import backend
from tasc.backend import MergeRequest
from tasc.errors import InputError
from tasc.tokenizer.loaded import Encoded
from tests.backend import reference

BACKENDS = [backend, reference]
# Different ids concatenate to equal strings, some of them base strings; some extend others.
VOCABULARY = (b"a", b"b", b"ab", b"ba", b"aa", b"", b"c", b"<s>")


def request(samples, **options) -> MergeRequest:
    encoded = Encoded.of(samples)
    return MergeRequest(
        tokens=encoded.tokens,
        offsets=encoded.offsets,
        weights=np.array(options.pop("weights", [1] * len(samples)), np.int64),
        vocabulary=VOCABULARY,
        special=frozenset({7}),
        **{"budget": 100, "alpha_pcs": 1.0, **options},
    )


def rounded(result):
    """The result without the last digits of floats, which depend on the order of additions."""
    merges = [
        dataclasses.replace(m, pcs=round(m.pcs, 9), h2=round(m.h2, 7), h1=round(m.h1, 7))
        for m in result.merges
    ]
    before = {name: round(getattr(result, name), 9) for name in ("h2_before", "h1_before")}
    return dataclasses.replace(result, merges=merges, **before)


@st.composite
def requests(draw):
    letters = draw(st.sampled_from([(0, 1), (0,), (0, 1, 2, 3), (0, 4), tuple(range(8))]))
    chunk = st.lists(st.sampled_from(letters), min_size=1, max_size=6)
    # Repeating a chunk makes runs (a a a a) and long shared n-grams.
    sample = st.tuples(chunk, st.integers(1, 5), chunk).map(lambda c: c[0] * c[1] + c[2])
    # Chunks that samples share make longer corpora with n-grams that overlap.
    shared = st.lists(st.sampled_from(draw(st.lists(chunk, min_size=1, max_size=6))), max_size=11)
    sample |= shared.map(lambda chunks: [token for chunk in chunks for token in chunk])
    samples = draw(st.lists(sample, min_size=1, max_size=6))
    size = sum(map(len, samples))
    bounded = draw(st.booleans())
    flags = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)) if bounded else None
    strings = st.lists(st.sampled_from(b"ab"), min_size=2, max_size=4).map(bytes)
    banned = draw(st.frozensets(strings, max_size=3))
    return request(
        samples,
        weights=draw(st.lists(st.integers(1, 3), min_size=len(samples), max_size=len(samples))),
        boundaries=None if flags is None else np.array(flags, np.uint8),
        budget=draw(st.sampled_from([0, 1, 3, 30, 100])),
        n_max=draw(st.integers(2, 5)),
        alpha_pcs=draw(st.sampled_from([1.1, 0.6, 0.2])),
        conditional=draw(st.booleans()),
        admit=lambda string: string not in banned,
        min_frequency=draw(st.integers(1, 3)),
        min_reward=draw(st.sampled_from([0, 0, 3, 6])),
    )


@settings(max_examples=260, deadline=None)
@given(requests())
def test_native_and_reference_agree(asked):
    native, slow = (rounded(backend.merge_search(asked)) for backend in BACKENDS)
    assert native == slow


@pytest.mark.parametrize("backend", BACKENDS)
class TestWorkedExamples:
    def test_reward_prefers_a_longer_ngram_of_equal_count(self, backend):
        result = backend.merge_search(request([[0, 1, 6]] * 3, budget=1))
        merge = result.merges[0]
        assert (merge.ids, merge.new_id, merge.string) == ((0, 1, 6), 8, b"abc")
        assert (merge.frequency, merge.reward, merge.tokens) == (3, 6, 3)
        assert (result.tokens_before, result.last[0]) == (9, 3)

    def test_ties_go_to_the_larger_n_and_then_to_the_smaller_ids(self, backend):
        # (0, 6, 0) twice and (6, 1) four times both save 4 tokens; so does (1, 6) four times.
        samples = [[0, 6, 0]] * 2 + [[6, 1]] * 4 + [[1, 6]] * 4
        merges = backend.merge_search(request(samples)).merges
        assert [m.ids for m in merges[:3]] == [(0, 6, 0), (1, 6), (6, 1)]

    @pytest.mark.parametrize(
        ("length", "found"), [(7, [((6, 6), 3, 4)]), (8, [((6, 6), 4, 4), ((8, 8), 2, 2)])]
    )
    def test_a_run_is_counted_without_overlaps_and_new_tokens_merge(self, backend, length, found):
        merges = backend.merge_search(request([[6] * length], n_max=2)).merges
        assert [(m.ids, m.frequency, m.tokens) for m in merges] == found

    @pytest.mark.parametrize(
        "samples",
        [
            pytest.param([[0], [6], [0], [6]], id="across samples"),
            pytest.param([[6, 7, 6, 7, 6, 5, 6, 5]], id="with a special token or no string"),
            pytest.param([[0, 1]] * 9, id="a spelling of a base token"),
        ],
    )
    def test_these_ngrams_are_no_candidates(self, backend, samples):
        assert backend.merge_search(request(samples)).merges == ()

    def test_weights_count_as_repetitions(self, backend):
        once = backend.merge_search(request([[0, 6], [1, 6]], weights=[3, 2]))
        repeated = backend.merge_search(request([[0, 6]] * 3 + [[1, 6]] * 2))
        assert once.merges == repeated.merges
        assert once.tokens_before == repeated.tokens_before == 10

    def test_a_second_spelling_reuses_the_token_and_costs_no_budget(self, backend):
        # "aba" is spelled (0, 3) eight times and (2, 0) five times; then "abac" stands six times.
        samples = [[0, 3]] * 5 + [[0, 3, 6]] * 3 + [[2, 0]] * 2 + [[2, 0, 6]] * 3
        result = backend.merge_search(request(samples, n_max=2, budget=2))
        assert [(m.string, m.frequency) for m in result.merges] == [(b"aba", 8), (b"abac", 6)]
        assert [(a.ids, a.new_id, a.after) for a in result.aliases] == [((2, 0), 8, 1)]

    def test_pcs_is_the_share_of_tokens_that_extend_the_last_one(self, backend):
        # (6, 0) ends in "a"; tokens 2 "ab" and 4 "aa" extend it: 3 of 12 tokens.
        samples = [[6, 0]] * 4 + [[2], [2], [4], [1]]
        accepted = backend.merge_search(request(samples, budget=1, alpha_pcs=0.26))
        assert accepted.merges[0].pcs == pytest.approx(3 / 12)
        rejected = backend.merge_search(request(samples, budget=1, alpha_pcs=0.25))
        assert (rejected.merges, rejected.rejected) == ((), 1)

    def test_conditional_pcs_looks_only_behind_the_same_prefix(self, backend):
        # After 6 come 0 "a" four times, 2 "ab" once, and once the sample ends.
        samples = [[6, 0]] * 4 + [[6, 2], [6], [2], [2]]
        result = backend.merge_search(request(samples, budget=1, conditional=True))
        assert result.merges[0].pcs == pytest.approx(1 / 6)

    def test_only_whole_pretokens_or_pairs_inside_one_are_merged(self, backend):
        # "c|ac|" twice: pairs (6, 0) and triples would begin whole and end inside, or begin inside.
        flags = np.array([1, 1, 0] * 2, np.uint8)
        (merge,) = backend.merge_search(request([[6, 0, 6]] * 2, boundaries=flags)).merges
        assert (merge.ids, merge.inner) == ((6, 0, 6), 0)
        inside = request([[0, 6, 1]] * 2, boundaries=np.array([1, 0, 0] * 2, np.uint8), n_max=2)
        pair = backend.merge_search(inside).merges[0]
        assert (pair.ids, pair.inner) == ((0, 6), 2)

    @pytest.mark.parametrize(("least", "found"), [(0, 2), (3, 2), (4, 1), (6, 0)])
    def test_the_search_ends_before_a_merge_that_saves_too_little(self, backend, least, found):
        samples = [[0, 6]] * 5 + [[1, 6]] * 3
        assert len(backend.merge_search(request(samples, min_reward=least)).merges) == found

    def test_ngrams_that_are_not_admitted_are_skipped_and_asked_once(self, backend):
        asked: list[bytes] = []

        def admit(string: bytes) -> bool:
            asked.append(string)
            return string not in (b"cb", b"ccb")

        samples = [[6, 6, 1]] * 3
        result = backend.merge_search(request(samples, admit=admit))
        assert [m.string for m in result.merges] == [b"cc"]
        assert asked == [b"ccb", b"cb", b"cc", b"ccb"]  # the last one is cc and b

    def test_entropies_are_those_of_the_corpus_after_the_merge(self, backend):
        result = backend.merge_search(request([[0, 6], [0, 6], [1], [1]], budget=1))
        assert result.h2_before == pytest.approx(-math.log2(12 / 36))
        assert (result.merges[0].h2, result.merges[0].h1) == pytest.approx((1.0, 1.0))

    @pytest.mark.parametrize(("samples", "tokens"), [([[0], [0]], 2), ([[]], 0)])
    def test_nothing_to_merge_leaves_entropies_of_0_without_a_sign(self, backend, samples, tokens):
        result = backend.merge_search(request(samples))
        assert (result.merges, result.tokens_before) == ((), tokens)
        for entropy in (result.h2_before, result.h1_before):
            assert (entropy, math.copysign(1, entropy)) == (0.0, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_max": 1}, "n_max must lie in 2 .. 16, got 1"),
        ({"budget": -1}, "budget must lie in .* got -1"),
        ({"alpha_pcs": math.nan}, "alpha must not be negative or NaN"),
        ({"min_frequency": 0}, "min_frequency must be at least 1"),
        ({"min_reward": -1}, "min_reward must be 0 or more"),
        ({"weights": np.array([0], np.int64)}, "weights must lie in .* got 0"),
        ({"weights": np.array([1, 1], np.int64)}, "one entry a sample"),
        ({"tokens": np.array([0, 9], np.int32)}, "outside of the vocabulary of 8"),
        ({"tokens": np.array([0, -1], np.int32)}, "token id -1 is outside"),
        ({"offsets": np.array([0, 3], np.int64)}, "offsets must run from 0"),
        ({"offsets": np.array([0, 3, 2], np.int64)}, "offsets must not decrease"),
        ({"special": frozenset({8})}, "outside of the vocabulary of 8"),
        ({"boundaries": np.zeros(3, np.uint8)}, "one entry a token"),
    ],
)
def test_malformed_requests_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        backend.merge_search(dataclasses.replace(request([[0, 1]]), **changes))


def test_progress_reports_the_end_and_its_exception_ends_the_search():
    rng = np.random.default_rng(0)
    asked = request([rng.integers(0, 2, 3000).tolist()], budget=50)
    progress = Mock()
    found = len(backend.merge_search(asked, progress).merges)
    assert progress.call_args.args == ("merge search", found, found)
    with pytest.raises(RuntimeError, match="stop"):
        backend.merge_search(asked, Mock(side_effect=RuntimeError("stop")))


def test_an_interrupt_ends_the_native_search(heard):
    interrupt = Mock(side_effect=lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        backend.merge_search(request([[0, 1] * 100]), interrupt)
    interrupt.assert_called_once()
