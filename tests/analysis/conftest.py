"""A small tokenizer and corpora for the tests of this layer."""

from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tasc.benchmark.results.analysis import AnalysisResults, Verdict
from tasc.data.corpus import Corpus, Example
from tasc.data.source import Source
from tasc.tokenizer.loaded import LoadedTokenizer


@pytest.fixture(scope="session")
def tokenizer():
    """Byte-level BPE whose tokens are single bytes and a few pairs."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["intent slot play music alarm set time date genre"], trainer)
    return LoadedTokenizer(made, "small")


@pytest.fixture
def make_corpus():
    """Build a corpus of (input, output) pairs."""

    def make(rows):
        examples = tuple(Example(text, output, text + "\n") for text, output in rows)
        return Corpus(Source("made.jsonl"), "train", examples, "0" * 64)

    return make


def assert_same(one: Any, other: Any) -> None:
    """Assert that two scans have counted the same."""
    assert (one.samples, one.dropped) == (other.samples, other.dropped)
    for a, b in ((one.input, other.input), (one.output, other.output)):
        assert (a.words, a.tokens) == (b.words, b.tokens)
        assert np.array_equal(a.counts, b.counts)
    assert one.distinct_outputs == other.distinct_outputs
    assert one.sample.texts == other.sample.texts
    assert np.array_equal(one.sample.weights, other.sample.weights)
    assert one.rows == other.rows


def results_of(report: Any, choice: Any, budgets: Any = ()) -> AnalysisResults:
    """Return the results of an analysis with a verdict that says no more than ``choice``."""
    unknown = dict.fromkeys(("recommended_size", "drafting", "serving"))
    verdict = Verdict(choice, ("because",))
    return AnalysisResults(**vars(report), **unknown, trim=(), budgets=budgets, verdict=verdict)
