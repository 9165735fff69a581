"""What a bench predicts of itself, beside what it measured."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasc.bench import predict
from tasc.bench.record import speedup
from tasc.spec.drafters import DRAFTERS


def test_a_sampled_bench_is_predicted_against_the_speedup_that_it_reports():
    row = {"lossless": None, "ms_per_sample": 10.0, "tokens_per_second": 300.0}
    seen = row | {"tokens_per_step": 2.5}
    first = {"lossless": None, "ms_per_sample": 40.0, "tokens_per_second": 100.0}
    model, method = SimpleNamespace(label="m"), SimpleNamespace(label="spec")
    cell: Any = SimpleNamespace(model=model, method=method)
    one = {"ms_per_sample": 8.0, "tokens_per_step": 1.0}
    two = {"ms_per_sample": 4.0, "tokens_per_step": 2.0}
    found = predict._compared(cell, two, one, seen, first)
    assert found["measured_speedup"] == speedup(seen, first) == pytest.approx(3)
    assert (found["speedup"], found["measured_tokens_per_step"]) == (2, 2.5)
    assert found["tokens_per_step_error"] == pytest.approx(-0.2)


def test_whatever_drafts_from_tokens_alone_is_predicted():
    simulated = {name for name, entry in DRAFTERS.items() if entry.simulates}
    own = {"ar", "tasc-spec", "tasc-spec-paper", "corpus", "prompt"}
    assert simulated == own | {"prompt-lookup", "ngram-trie", "suffix", "ngrammys"}


class Words:
    """Every text is the ids that it lists."""

    def __init__(self, size):
        self.size = size

    def vocabulary(self):
        return [b""] * self.size

    def encode(self, texts):
        ids = np.array([int(i) % self.size for text in texts for i in text.split()], np.int32)
        return SimpleNamespace(tokens=ids)


def test_entropy_and_runtime_are_compared_over_the_vocabularies_of_a_bench():
    corpus: Any = SimpleNamespace(outputs=["0 1 2 3", "4 5 6 7"])
    sizes = {"a": 2, "b": 4, "c": 8}
    cells: list[Any] = [
        SimpleNamespace(
            model=SimpleNamespace(label=label, tokenizer=Words(size)),
            method=SimpleNamespace(label="ar"),
        )
        for label, size in sizes.items()
    ]
    rows = [
        {"model": label, "method": "ar", "ms_per_sample": ms}
        for label, ms in (("a", 9.0), ("b", 5.0), ("c", 4.0))
    ]
    found = predict.entropy_and_runtime(cells, corpus, rows)
    assert [point["budget"] for point in found["points"]] == [0, 2, 6]
    assert [point["h2"] for point in found["points"]] == pytest.approx([1, 2, 3])
    assert (found["tau"], found["directional_rate"]) == (pytest.approx(-1), 1)
    assert predict.entropy_and_runtime(cells[:1], corpus, rows[:1]) is None
