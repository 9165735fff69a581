"""N-gram counting: sorted runs and their merge, of tokens and of words."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasc import backend
from tasc.backend import counts as native_counts
from tasc.errors import InputError
from tests.backend import reference_counts as reference

BACKENDS = [backend, reference]
LARGEST_ID = 2**31 - 2
IDS = st.sampled_from([0, 1, 2, 3, 150_000, LARGEST_ID])
SAMPLES = st.lists(st.tuples(st.lists(IDS, max_size=30), st.integers(1, 5)), max_size=8)
TEXTS = st.lists(
    st.text(st.sampled_from("ab é\0\u00a0\u0085\u2003\u3000\u1680\x1f\n\u200b"), max_size=20)
)


def corpus(samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    tokens = np.array([t for ids, _ in samples for t in ids], np.int32)
    offsets = np.cumsum([0, *(len(ids) for ids, _ in samples)]).astype(np.int64)
    return tokens, offsets, np.array([weight for _, weight in samples], np.int64)


def plain(counts):
    spectra = [
        [a.tolist() for a in (s.counts, s.times, s.top_ids, s.top_counts)] for s in counts.spectra
    ]
    return spectra, counts.ids.tolist(), counts.counts.tolist()


quick = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@quick
@given(SAMPLES, st.integers(0, 8), st.integers(0, 4))
def test_native_and_reference_agree_on_files_and_distributions(tmp_path, samples, cut, top):
    native, reference = BACKENDS
    for part, rows in (("a", samples[:cut]), ("b", samples[cut:])):
        native.write_counts(*corpus(rows), tmp_path / part)
        reference.write_counts(*corpus(rows), tmp_path / f"{part}-slow")
        assert (tmp_path / part).read_bytes() == (tmp_path / f"{part}-slow").read_bytes()
    parts = [tmp_path / "a", tmp_path / "b"]
    found = plain(native.merge_counts(parts, top))
    assert found == plain(reference.merge_counts(parts, top))
    # Counting is mergeable: in whatever parts, in whatever order.
    native.write_counts(*corpus(samples), tmp_path / "whole")
    assert found == plain(native.merge_counts([tmp_path / "whole"], top))
    assert found == plain(native.merge_counts(parts[::-1], top))


@pytest.mark.parametrize("most", [2, 3, 4, 7, 8])
def test_more_runs_than_files_may_be_open_are_merged_all_the_same(tmp_path, monkeypatch, most):
    native, reference = BACKENDS
    paths = [tmp_path / str(part) for part in range(8)]
    for part, path in enumerate(paths):
        native.write_counts(*corpus([([1, part % 3, 2, part], 1 + part)]), path)
    monkeypatch.setattr(native_counts, "_OPEN_FILES", most)
    assert plain(native.merge_counts(paths, 9)) == plain(reference.merge_counts(paths, 9))


@quick
@given(TEXTS, st.integers(4, 9))
def test_words_agree_with_split_whatever_the_batch(tmp_path, texts, batch):
    native, reference = (b.WordCounter(tmp_path / f"w{i}", batch) for i, b in enumerate(BACKENDS))
    assert (
        native.add_texts(texts) == reference.add_texts(texts) == sum(len(t.split()) for t in texts)
    )
    assert native.add_words(["a b", "é"]) == reference.add_words(["a b", "é"]) == 2
    found = [
        b.merge_counts(c.finish(), 5) for b, c in zip(BACKENDS, (native, reference), strict=True)
    ]
    assert plain(found[0]) == plain(found[1])
    assert [native.word(i) for i in found[0].ids] == [reference.word(i) for i in found[0].ids]


@quick
@given(st.lists(TEXTS, max_size=6), st.integers(4, 9))
def test_parts_of_a_text_counted_apart_are_the_text(tmp_path, parts, batch):
    native = BACKENDS[0]
    merged, texts = native.WordCounter(tmp_path / "merged", batch), []
    for i, some in enumerate(parts):
        counters = [b.WordCounter(tmp_path / f"p{i}-{j}", batch) for j, b in enumerate(BACKENDS)]
        left = []
        for counter in counters:
            counter.add_texts(some)
            left.append(counter.leave())
        for name in ("letters", "ends", "first", "last"):
            assert np.array_equal(*(getattr(one, name) for one in left))
        merged.take(left[i % 2])
        texts += some
    merged.add_words(["a", "the end"])
    whole = reference.WordCounter(tmp_path / "whole")
    whole.add_texts(texts)
    whole.add_words(["a", "the end"])
    found = native.merge_counts(merged.finish(), 9)
    assert plain(found) == plain(reference.merge_counts(whole.finish(), 9))
    assert [merged.word(i) for i in found.ids] == [whole.word(i) for i in found.ids]


def test_counted_words_that_do_not_fit_together_are_refused(tmp_path):
    counter = BACKENDS[0].WordCounter(tmp_path / "w", 4)
    counter.add_texts(["a b c d e a b"])
    left = counter.leave()
    for wrong in (
        {"letters": left.letters[:3]},
        {"ends": left.ends[::-1].copy()},
        {"ends": left.ends[:2]},
        {"first": left.first + np.int32(9)},
        {"last": left.last[:1]},
    ):
        with pytest.raises(InputError, match="not what was written"):
            BACKENDS[0].WordCounter(tmp_path / "x").take(replace(left, **wrong))
    fewer = replace(left, letters=left.letters[:3], ends=left.ends[:3], last=left.first)
    with pytest.raises(InputError, match="not what was written"):
        BACKENDS[0].WordCounter(tmp_path / "x").take(fewer)


@pytest.mark.parametrize("backend", BACKENDS)
def test_counts_are_weighted_and_never_cross_samples(backend, tmp_path):
    samples = [([5, LARGEST_ID, 5], 1), ([1, 1, 1], 3), ([], 2), ([5, 0], 1)]
    backend.write_counts(*corpus(samples), tmp_path / "run")
    found = backend.merge_counts([tmp_path / "run"], 9)
    pairs = found.spectra[1]
    assert pairs.top_ids.tolist() == [[1, 1], [5, 0], [5, LARGEST_ID], [LARGEST_ID, 5]]
    assert pairs.top_counts.tolist() == [6, 1, 1, 1]
    assert (pairs.counts.tolist(), pairs.times.tolist()) == ([6, 1], [1, 3])
    assert (pairs.total, pairs.distinct) == (9, 4)
    assert (found.ids.tolist(), found.counts.tolist()) == ([0, 1, 5, LARGEST_ID], [1, 9, 3, 1])
    assert found.spectra[3].total == 0


def test_more_runs_than_files_may_be_open(tmp_path):
    native = BACKENDS[0]
    rng = np.random.default_rng(3)
    samples = [(rng.integers(0, 50, 20).tolist(), 1) for _ in range(400)]
    paths = [tmp_path / f"{i}" for i in range(400)]
    for sample, path in zip(samples, paths, strict=True):
        native.write_counts(*corpus([sample]), path)
    native.write_counts(*corpus(samples), tmp_path / "whole")
    assert plain(native.merge_counts(paths, 3)) == plain(
        native.merge_counts([tmp_path / "whole"], 3)
    )


def test_malformed_arrays_are_refused(tmp_path):
    tokens, offsets, weights = corpus([([1, 2, 3], 1)])
    with pytest.raises(InputError, match="offsets must run from 0 to the number of tokens, 3"):
        backend.write_counts(tokens, offsets[:1], weights, tmp_path / "x")
    with pytest.raises(InputError, match=r"must be from 0 to .* got -1"):
        backend.write_counts(-tokens, offsets, weights, tmp_path / "x")
    with pytest.raises(InputError, match=r"must be from 0 to .* got 2147483647"):
        backend.write_counts(tokens + np.int32(LARGEST_ID - 2), offsets, weights, tmp_path / "x")
    with pytest.raises(InputError, match="one entry a sample"):
        backend.write_counts(tokens, offsets, weights[:0], tmp_path / "x")


def test_a_run_that_was_cut_within_a_record_is_refused(tmp_path):
    native = BACKENDS[0]
    native.write_counts(*corpus([([1, 2, 3, 4, 5, 6, 7], 2)]), tmp_path / "x")
    whole = (tmp_path / "x").read_bytes()
    for words in (1, 2):
        (tmp_path / "x").write_bytes(whole[: -8 * words])
        with pytest.raises(InputError, match="cannot be read"):
            native.merge_counts([tmp_path / "x"])


def test_words_of_zeros_and_of_eight_bytes_are_told_apart(tmp_path):
    words = ["a", "a\0", "a\0\0", "\0", "abcdefgh", "abcdefgh\0", "abcdefghi", "abcdefghj"]
    words += ["abcdefgh" * 2, "abcdefgh" * 2 + "\0", "é" * 4, "é" * 5, "abcdefg", "abcdef"]
    counter = BACKENDS[0].WordCounter(tmp_path / "w")
    assert counter.add_texts([" ".join(words), "\n".join(reversed(words))]) == 2 * len(words)
    found = BACKENDS[0].merge_counts(counter.finish())
    assert sorted(counter.word(i) for i in found.ids) == sorted(words)
    assert set(found.counts.tolist()) == {2}


def test_a_scratch_file_that_cannot_be_used_is_named(tmp_path):
    native = BACKENDS[0]
    with pytest.raises(InputError, match="cannot be written: free some space, or set TMPDIR"):
        native.write_counts(*corpus([([1], 1)]), tmp_path / "none" / "run")
    with pytest.raises(InputError, match="cannot be read"):
        native.merge_counts([tmp_path / "none"])
