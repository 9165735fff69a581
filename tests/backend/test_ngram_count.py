"""N-gram counting: sorted runs and their merge, of tokens and of words."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasc import backend
from tasc.backend import counts as native_counts
from tasc.errors import InputError
from tasc.tokenizer.loaded import Encoded
from tests.backend import reference_counts as reference

LARGEST_ID = 2**31 - 2
IDS = st.sampled_from([0, 1, 2, 3, 150_000, LARGEST_ID])
SAMPLES = st.lists(st.tuples(st.lists(IDS, max_size=30), st.integers(1, 5)), max_size=8)
TEXTS = st.lists(
    st.text(st.sampled_from("ab é\0\u00a0\u0085\u2003\u3000\u1680\x1f\n\u200b"), max_size=20)
)


def corpus(samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    encoded = Encoded.of([ids for ids, _ in samples])
    return encoded.tokens, encoded.offsets, np.array([weight for _, weight in samples], np.int64)


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
def test_counts_are_those_of_the_definition_in_whatever_parts(tmp_path, samples, cut, top):
    for name, part in (("a", samples[:cut]), ("b", samples[cut:]), ("whole", samples)):
        backend.write_counts(*corpus(part), tmp_path / name)
    expected = plain(reference.count(samples, top))
    for names in ("a", "b"), ("b", "a"), ("whole",):
        assert plain(backend.merge_counts([tmp_path / name for name in names], top)) == expected


def test_a_run_has_the_words_that_its_docstring_describes(tmp_path):
    backend.write_counts(*corpus([([0, 1, 2], 1), ([0, 1], 2)]), tmp_path / "run")
    new, counted = 1 << 63, 1 << 31
    expected = [
        *(new | counted, 1 << 32 | 2, 2),  # the ids 0 1, twice
        3 << 32,  # 0 1 2, with the same first word
        *(new | counted, 2 << 32, 2),  # 1, twice
        *(new, 2 << 32 | 3),  # 1 2
        *(new, 3 << 32),  # 2
    ]
    assert np.fromfile(tmp_path / "run", "<u8").tolist() == expected


@pytest.mark.parametrize("most", [2, 3, 4, 7, 8])
def test_more_runs_than_files_may_be_open_are_merged_all_the_same(tmp_path, monkeypatch, most):
    paths = [tmp_path / str(part) for part in range(8)]
    samples = [([1, part % 3, 2, part], 1 + part) for part in range(8)]
    for sample, path in zip(samples, paths, strict=True):
        backend.write_counts(*corpus([sample]), path)
    monkeypatch.setattr(native_counts, "_OPEN_FILES", most)
    assert plain(backend.merge_counts(paths, 9)) == plain(reference.count(samples, 9))


def assert_counted(counter, words, top):
    """Finish a counter: it has counted these words."""
    found = backend.merge_counts(counter.finish(), top)
    assert plain(found) == plain(reference.count_words(words, top))
    assert [counter.word(i) for i in found.ids] == list(dict.fromkeys(words))


@quick
@given(TEXTS, st.integers(4, 9))
def test_words_agree_with_split_whatever_the_batch(tmp_path, texts, batch):
    counter, words = backend.WordCounter(tmp_path / "w", batch), " ".join(texts).split()
    assert counter.add_texts(texts) == len(words)
    assert counter.add_words(["a b", "é"]) == 2
    assert_counted(counter, [*words, "a b", "é"], 5)


@quick
@given(st.lists(TEXTS, max_size=6), st.integers(4, 9))
def test_parts_of_a_text_counted_apart_are_the_text(tmp_path, parts, batch):
    merged = backend.WordCounter(tmp_path / "merged", batch)
    for i, texts in enumerate(parts):
        counter = backend.WordCounter(tmp_path / f"part-{i}", batch)
        counter.add_texts(texts)
        merged.take(counter.leave())
    merged.add_words(["a", "the end"])
    words = [word for texts in parts for text in texts for word in text.split()]
    assert_counted(merged, [*words, "a", "the end"], 9)


def test_counted_words_that_do_not_fit_together_are_refused(tmp_path):
    counter = backend.WordCounter(tmp_path / "w", 4)
    counter.add_texts(["a b c d e a b"])
    left = counter.leave()
    for wrong in (
        {"letters": left.letters[:3]},
        {"ends": left.ends[::-1].copy()},
        {"ends": left.ends[:2]},
        {"first": left.first + np.int32(9)},
        {"last": left.last[:1]},
        {"letters": left.letters[:3], "ends": left.ends[:3], "last": left.first},
    ):
        with pytest.raises(InputError, match="not what was written"):
            backend.WordCounter(tmp_path / "x").take(replace(left, **wrong))


def test_counts_are_weighted_and_never_cross_samples(tmp_path):
    samples = [([5, LARGEST_ID, 5], 1), ([1, 1, 1], 3), ([], 2), ([5, 0], 1)]
    backend.write_counts(*corpus(samples), tmp_path / "run")
    for found in (backend.merge_counts([tmp_path / "run"], 9), reference.count(samples, 9)):
        pairs = found.spectra[1]
        assert pairs.top_ids.tolist() == [[1, 1], [5, 0], [5, LARGEST_ID], [LARGEST_ID, 5]]
        assert pairs.top_counts.tolist() == [6, 1, 1, 1]
        assert (pairs.counts.tolist(), pairs.times.tolist()) == ([6, 1], [1, 3])
        assert (pairs.total, pairs.distinct) == (9, 4)
        assert (found.ids.tolist(), found.counts.tolist()) == ([0, 1, 5, LARGEST_ID], [1, 9, 3, 1])
        assert found.spectra[3].total == 0


def test_malformed_arrays_are_refused(tmp_path):
    tokens, offsets, weights = corpus([([1, 2, 3], 1)])
    for ids, ends, times, message in (
        (tokens, offsets[:1], weights, "offsets must run from 0 to the number of tokens, 3"),
        (-tokens, offsets, weights, r"must be from 0 to .* got -1"),
        (tokens + np.int32(LARGEST_ID - 2), offsets, weights, "from 0 to .* got 2147483647"),
        (tokens, offsets, weights[:0], "one entry a sample"),
    ):
        with pytest.raises(InputError, match=message):
            backend.write_counts(ids, ends, times, tmp_path / "x")


def test_a_run_that_was_cut_within_a_record_is_refused(tmp_path):
    backend.write_counts(*corpus([([1, 2, 3, 4, 5, 6, 7], 2)]), tmp_path / "x")
    whole = (tmp_path / "x").read_bytes()
    for words in (1, 2):
        (tmp_path / "x").write_bytes(whole[: -8 * words])
        with pytest.raises(InputError, match="cannot be read"):
            backend.merge_counts([tmp_path / "x"])


def test_words_of_zeros_and_of_eight_bytes_are_told_apart(tmp_path):
    words = ["a", "a\0", "a\0\0", "\0", "abcdefgh", "abcdefgh\0", "abcdefghi", "abcdefghj"]
    words += ["abcdefgh" * 2, "abcdefgh" * 2 + "\0", "é" * 4, "é" * 5, "abcdefg", "abcdef"]
    counter = backend.WordCounter(tmp_path / "w")
    assert counter.add_texts([" ".join(words), "\n".join(reversed(words))]) == 2 * len(words)
    assert_counted(counter, [*words, *reversed(words)], 9)


def test_a_scratch_file_that_cannot_be_used_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot be written: free some space, or set TMPDIR"):
        backend.write_counts(*corpus([([1], 1)]), tmp_path / "none" / "run")
    with pytest.raises(InputError, match="cannot be read"):
        backend.merge_counts([tmp_path / "none"])
