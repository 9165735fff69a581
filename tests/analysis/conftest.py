"""Corpora for the tests of this layer, and what two scans have counted."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from tasc.benchmark.results.analysis import AnalysisResults, Verdict
from tasc.data.corpus import Corpus, Example
from tasc.data.source import Source


def make_corpus(rows: Iterable[tuple[str, str]]) -> Corpus:
    examples = tuple(Example(text, output, text + "\n") for text, output in rows)
    return Corpus(Source("made.jsonl"), "train", examples, "0" * 64)


def assert_same(one: Any, other: Any) -> None:
    assert (one.samples, one.dropped) == (other.samples, other.dropped)
    for a, b in ((one.input, other.input), (one.output, other.output)):
        assert (a.words, a.tokens) == (b.words, b.tokens)
        assert np.array_equal(a.counts, b.counts)
    assert one.distinct_outputs == other.distinct_outputs
    assert one.sample.texts == other.sample.texts
    assert np.array_equal(one.sample.weights, other.sample.weights)


def results_of(report: Any, choice: Any, budgets: Any = ()) -> AnalysisResults:
    """Return the results of an analysis with a verdict that says no more than ``choice``."""
    unknown = dict.fromkeys(("recommended_size", "drafting", "serving"))
    verdict = Verdict(choice, ("because",))
    return AnalysisResults(**vars(report), **unknown, trim=(), budgets=budgets, verdict=verdict)
