"""The native merge search against the reference, and both against worked examples."""

import dataclasses
import math
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc import backend
from tasc.backend import MergeRequest
from tasc.errors import InputError
from tests.backend import reference

BACKENDS = [backend, reference]
# Different ids concatenate to equal strings, some of them base strings; some extend others.
VOCABULARY = (b"a", b"b", b"ab", b"ba", b"aa", b"", b"c", b"<s>")
SPECIAL = frozenset({7})


def request(samples, vocabulary=VOCABULARY, **options) -> MergeRequest:
    lengths = [len(s) for s in samples]
    return MergeRequest(
        tokens=np.array([t for s in samples for t in s], np.int32),
        offsets=np.cumsum([0, *lengths]).astype(np.int64),
        weights=np.array(options.pop("weights", [1] * len(samples)), np.int64),
        vocabulary=vocabulary,
        special=options.pop("special", SPECIAL),
        **{"budget": 100, "alpha_pcs": 1.0, **options},
    )


def assert_equal_results(native, reference):
    for field in dataclasses.fields(native):
        if field.name not in {"merges", "h2_before", "h1_before"}:
            assert getattr(native, field.name) == getattr(reference, field.name), field.name
    assert native.h2_before == pytest.approx(reference.h2_before, abs=1e-9)
    assert native.h1_before == pytest.approx(reference.h1_before, abs=1e-9)
    rounded = [
        [
            dataclasses.replace(m, pcs=round(m.pcs, 9), h2=round(m.h2, 7), h1=round(m.h1, 7))
            for m in result.merges
        ]
        for result in (native, reference)
    ]
    assert rounded[0] == rounded[1]


@st.composite
def requests(draw):
    letters = draw(st.sampled_from([(0, 1), (0,), (0, 1, 2, 3), (0, 4), tuple(range(8))]))
    chunk = st.lists(st.sampled_from(letters), min_size=1, max_size=6)
    # Repeating a chunk makes runs (a a a a) and long shared n-grams.
    sample = st.tuples(chunk, st.integers(1, 5), chunk).map(lambda c: c[0] * c[1] + c[2])
    samples = draw(st.lists(sample | st.just([]), min_size=1, max_size=6))
    size = sum(map(len, samples))
    bounded = draw(st.booleans())
    flags = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)) if bounded else None
    strings = st.lists(st.sampled_from(b"ab"), min_size=2, max_size=4).map(bytes)
    return request(
        samples,
        weights=draw(st.lists(st.integers(1, 3), min_size=len(samples), max_size=len(samples))),
        boundaries=None if flags is None else np.array(flags, np.uint8),
        budget=draw(st.sampled_from([0, 1, 3, 100])),
        n_max=draw(st.integers(2, 5)),
        alpha_pcs=draw(st.sampled_from([1.1, 0.6, 0.2])),
        conditional=draw(st.booleans()),
        banned=draw(st.frozensets(strings, max_size=3)),
        min_frequency=draw(st.integers(1, 3)),
        min_reward=draw(st.sampled_from([0, 0, 3, 6])),
    )


@settings(max_examples=200, deadline=None)
@given(requests())
def test_native_and_reference_agree(asked):
    native, reference = (backend.merge_search(asked) for backend in BACKENDS)
    assert_equal_results(native, reference)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_native_and_reference_agree_on_longer_corpora(seed):
    rng = np.random.default_rng(seed)
    letters = rng.choice(7, rng.integers(1, 8), replace=False)
    chunks = [rng.choice(letters, rng.integers(1, 7)) for _ in range(6)]
    samples = [
        np.concatenate([chunks[k] for k in rng.integers(0, 6, rng.integers(1, 12))]).tolist()
        for _ in range(6)
    ]
    size = sum(map(len, samples))
    asked = request(
        samples,
        weights=rng.integers(1, 4, 6),
        boundaries=rng.integers(0, 2, size).astype(np.uint8) if rng.integers(2) else None,
        n_max=int(rng.integers(2, 6)),
        alpha_pcs=float(rng.choice([1.1, 0.5, 0.2])),
        conditional=bool(rng.integers(2)),
        budget=30,
    )
    native, reference = (backend.merge_search(asked) for backend in BACKENDS)
    assert_equal_results(native, reference)


@pytest.mark.parametrize("backend", BACKENDS)
class TestWorkedExamples:
    def test_reward_prefers_a_longer_ngram_of_equal_count(self, backend):
        result = backend.merge_search(request([[0, 1, 6]] * 3, budget=1))
        merge = result.merges[0]
        assert (merge.ids, merge.new_id, merge.string) == ((0, 1, 6), 8, b"abc")
        assert (merge.frequency, merge.reward, merge.tokens) == (3, 6, 3)
        assert (result.tokens_before, result.tokens_after) == (9, 3)

    def test_ties_go_to_the_larger_n_and_then_to_the_smaller_ids(self, backend):
        # (0, 6, 0) twice and (6, 1) four times both save 4 tokens; so does (1, 6) four times.
        samples = [[0, 6, 0]] * 2 + [[6, 1]] * 4 + [[1, 6]] * 4
        merges = backend.merge_search(request(samples)).merges
        assert [m.ids for m in merges[:3]] == [(0, 6, 0), (1, 6), (6, 1)]

    def test_a_run_is_counted_without_overlaps(self, backend):
        merges = backend.merge_search(request([[6] * 7], n_max=2)).merges
        assert [(m.ids, m.frequency, m.tokens) for m in merges] == [((6, 6), 3, 4)]

    def test_a_merge_can_hold_an_earlier_new_token(self, backend):
        merges = backend.merge_search(request([[6] * 8], n_max=2)).merges
        assert [m.ids for m in merges] == [(6, 6), (8, 8)]

    def test_ngrams_never_cross_samples(self, backend):
        assert backend.merge_search(request([[0], [6], [0], [6]])).merges == ()

    def test_no_ngram_holds_a_special_token_or_one_without_a_string(self, backend):
        assert backend.merge_search(request([[6, 7, 6, 7, 6, 5, 6, 5]])).merges == ()

    def test_weights_count_as_repetitions(self, backend):
        once = backend.merge_search(request([[0, 6], [1, 6]], weights=[3, 2]))
        repeated = backend.merge_search(request([[0, 6]] * 3 + [[1, 6]] * 2))
        assert once.merges == repeated.merges
        assert once.tokens_before == repeated.tokens_before == 10

    def test_a_spelling_of_a_base_token_is_passed_over(self, backend):
        assert backend.merge_search(request([[0, 1]] * 9)).merges == ()

    def test_a_second_spelling_reuses_the_token_and_costs_no_budget(self, backend):
        # "aba" is spelled (0, 3) eight times and (2, 0) five times; then "abac" stands six times.
        samples = [[0, 3]] * 5 + [[0, 3, 6]] * 3 + [[2, 0]] * 2 + [[2, 0, 6]] * 3
        result = backend.merge_search(request(samples, n_max=2, budget=2))
        assert [m.string for m in result.merges] == [b"aba", b"abac"]
        assert [(a.ids, a.new_id, a.after) for a in result.aliases] == [((2, 0), 8, 1)]
        assert len(result.aliases) == 1
        assert result.merges[1].frequency == 6

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
        asked = request([[6, 0, 6]] * 2, boundaries=flags)
        merges = backend.merge_search(asked).merges
        assert [m.ids for m in merges] == [(6, 0, 6)]
        assert merges[0].inner == 0
        inside = request([[0, 6, 1]] * 2, boundaries=np.array([1, 0, 0] * 2, np.uint8), n_max=2)
        pair = backend.merge_search(inside).merges[0]
        assert (pair.ids, pair.inner) == ((0, 6), 2)

    def test_the_search_ends_before_a_merge_that_saves_too_little(self, backend):
        samples = [[0, 6]] * 5 + [[1, 6]] * 3
        for least, found in ((0, 2), (3, 2), (4, 1), (6, 0)):
            result = backend.merge_search(request(samples, min_reward=least))
            assert len(result.merges) == found

    def test_banned_strings_are_skipped_and_admit_is_asked_once(self, backend):
        asked: list[bytes] = []

        def admit(string: bytes) -> bool:
            asked.append(string)
            return string != b"cb"

        samples = [[6, 6, 1]] * 3
        result = backend.merge_search(request(samples, banned=frozenset({b"ccb"}), admit=admit))
        assert [m.string for m in result.merges] == [b"cc"]
        assert asked == [b"cb", b"cc"]

    def test_entropies_are_those_of_the_corpus_after_the_merge(self, backend):
        result = backend.merge_search(request([[0, 6], [0, 6], [1], [1]], budget=1))
        assert result.h2_before == pytest.approx(-math.log2(12 / 36))
        assert (result.merges[0].h2, result.merges[0].h1) == pytest.approx((1.0, 1.0))

    def test_an_entropy_of_nothing_has_no_sign(self, backend):
        result = backend.merge_search(request([[0], [0]], budget=1))
        found = (result.h2_before, result.h1_before)
        assert [math.copysign(1, entropy) for entropy in found] == [1, 1]

    def test_an_empty_corpus_has_no_merges(self, backend):
        result = backend.merge_search(request([[]]))
        assert (result.merges, result.tokens_before, result.h2_before) == ((), 0, 0.0)


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
    calls: list[tuple[str, int, int]] = []
    result = BACKENDS[0].merge_search(asked, lambda *call: calls.append(call))
    assert calls[-1] == ("merge search", len(result.merges), len(result.merges))

    def stop(description, done, total):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        BACKENDS[0].merge_search(asked, stop)


def test_an_interrupt_ends_the_native_search():
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        pytest.skip("started in the background: SIGINT is ignored")
    calls: list[int] = []

    def interrupt(description, done, total):
        calls.append(done)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        BACKENDS[0].merge_search(request([[0, 1] * 100]), interrupt)
    assert len(calls) == 1
