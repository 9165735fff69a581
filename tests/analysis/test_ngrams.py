"""Word n-grams against plain counting, and the numbers of Table 1."""

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasc.analysis.scan import scan
from tasc.data.source import Source
from tasc.data.stream import open_stream
from tasc.errors import InputError
from tests.analysis.conftest import make_corpus

SAMPLES = st.lists(st.lists(st.sampled_from(["a", "b", "A", "é"]), max_size=8), max_size=6)


def word_stats(samples, n_max):
    return scan(make_corpus(("", " ".join(words)) for words in samples), n_max=n_max).output.words


@settings(max_examples=60, deadline=None)
@given(SAMPLES)
@example([["one"]])  # shorter than n
def test_counts_are_those_of_one_long_stream(samples):
    if not samples:
        with pytest.raises(InputError, match="the split 'train' is empty"):
            word_stats(samples, 3)
        return
    stream = [word for sample in samples for word in sample]
    stats = word_stats(samples, 3)
    assert stats.samples == len(samples)
    assert stats.words == len(stream)
    assert stats.distinct_words == len(set(stream))
    for row in stats.ngrams:
        grams = Counter(zip(*(stream[i:] for i in range(row.n)), strict=False))
        assert row.distinct == len(grams)
        assert row.total == grams.total()
    assert [row.n for row in stats.ngrams] == [1, 2, 3]


def test_case_is_kept_and_bigrams_cross_samples():
    stats = word_stats([["the", "The"], ["the"]], 2)
    bigrams = stats.bigrams
    assert (stats.distinct_words, bigrams.distinct, bigrams.entropy_bits) == (2, 2, 1)
    assert bigrams.typical_set == bigrams.n80 == 2


def test_table_1_of_part_of_speech_tagging(data_dir):
    found = scan(open_stream(Source(str(data_dir / "ud-ewt-pos"), input_column="tokens"), "train"))
    before, after = found.input.words.bigrams, found.output.words.bigrams
    assert round(before.entropy_bits, 2) == 15.53
    assert round(after.entropy_bits, 2) == 6.57
    assert (before.n80, after.n80) == (65288, 63)
    assert round(before.n80 / after.n80, 1) == 1036.3
    assert round(100 * (after.entropy_bits / before.entropy_bits - 1), 1) == -57.7


def test_table_1_of_intents_and_slots(data_dir):
    before = scan(open_stream(Source(str(data_dir / "massive-en")), "train")).input.words.bigrams
    assert round(before.entropy_bits, 2) == 13.40
    assert before.n80 == 15943


@pytest.mark.parametrize("n_max", [1, 2, 4, 5])
def test_the_spectrum_runs_to_n_max_and_holds_the_bigrams(n_max):
    stats = word_stats([["a", "b", "a", "b", "c"]], n_max)
    assert [row.n for row in stats.ngrams] == list(range(1, min(max(n_max, 2), 4) + 1))
    assert stats.bigrams.n == 2
