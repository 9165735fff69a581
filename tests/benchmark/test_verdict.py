"""The verdict follows its rule and gives its reasons."""

from types import SimpleNamespace
from typing import Any

import pytest

from tasc.analysis.report import TaskReport
from tasc.benchmark.forecast.verdict import decide
from tasc.benchmark.results.prediction import FEWEST
from tasc.benchmark.results.search import Trial
from tasc.vocab.search.predict import Prediction


def drafts(low: float, high: float | None = None, **changed: Any) -> Trial:
    """Return simulated drafts with the figures that the verdict reads."""
    high = low if high is None else high
    figures: dict[str, Any]
    figures = {"method": "tasc-spec", "samples": 200, "tokens_per_step": (low + high) / 2}
    figures |= {"tokens_per_output": 1.0, "steps_per_output": 1.0}
    return Trial.model_construct(**figures | {"tokens_per_step_interval": (low, high)} | changed)


PLAIN = drafts(1.0)
Seen = tuple[TaskReport, Trial | None, Prediction]


def report(samples: int, distinct: int, words: float, n80: int, bits: Any, **more: Any) -> Any:
    """Return an analysis with the figures that the verdict reads."""
    ngrams = [SimpleNamespace(n80=n80, entropy_bits=entropy) for entropy in bits]
    before, after = (SimpleNamespace(words_per_sample=words, ngrams=[row]) for row in ngrams)
    figures = {"samples": samples, "distinct_outputs": distinct, "tokens": None}
    return SimpleNamespace(input=before, output=after, **figures | more)


def tokens(
    steps: float = 20.0, ratio: float = 1.0, spec: Trial | None = PLAIN, outputs: int = 500
) -> Seen:
    counted = SimpleNamespace(output=SimpleNamespace(tokens_per_sample=steps - 1))
    found = report(outputs, 400, 10, 100, (9.0, 6.0), tokens=counted)
    size: Any = SimpleNamespace(budget=500)
    return found, spec, Prediction(recommended_size=size, step_ratio=ratio)


def words(
    words_per_output: float,
    n80: int,
    change: float,
    outputs: int = 500,
    distinct: int = 400,
    before: float = 10.0,
) -> Seen:
    entropies = before, before * (1 + change)
    return report(outputs, distinct, words_per_output, n80, entropies), None, Prediction()


@pytest.mark.parametrize(
    ("seen", "choice"),
    [
        (tokens(ratio=2.0), "TASC-ft"),
        (tokens(spec=drafts(2.0)), "TASC-spec"),
        (tokens(ratio=2.0, spec=drafts(2.0)), "both"),
        (tokens(), "neither"),
        (tokens(steps=3.0, ratio=3.0, spec=drafts(3.0)), "neither"),
        (tokens(ratio=1.5, spec=drafts(1.5)), "both"),
        (tokens(ratio=1.49, spec=drafts(1.49)), "neither"),
        (tokens(ratio=1.496, spec=drafts(1.494)), "TASC-ft"),  # what is shown: 1.50 and 1.49
        (tokens(ratio=2.0, spec=None), "TASC-ft"),
        (tokens(spec=None), "too little data"),
        (tokens(spec=drafts(1.2, 1.4)), "neither"),
        (tokens(spec=drafts(1.4, 1.6)), "too little data"),
        (tokens(spec=drafts(1.6, 3.0)), "TASC-spec"),
        (tokens(ratio=2.0, spec=drafts(1.4, 1.6)), "TASC-ft"),
        (tokens(spec=drafts(3.0, samples=FEWEST)), "TASC-spec"),
        (tokens(spec=drafts(3.0, samples=FEWEST - 1)), "too little data"),
        (tokens(ratio=9.0, spec=drafts(9.0), outputs=FEWEST - 1), "too little data"),
        (tokens(spec=drafts(3.0, speedup=1.2)), "TASC-spec"),
        (tokens(spec=drafts(3.0, speedup=0.9)), "neither"),
        (tokens(spec=drafts(1.0, tokens_per_output=8.0)), "TASC-spec"),  # all in the prefill
        (words(1.0, 3, -0.8), "neither"),
        (words(17, 63, -0.577), "TASC-ft"),
        (words(200, 111_600, -0.05), "TASC-spec"),
        (words(200, 500, 0.3), "TASC-spec"),
        (words(200, 5, 0.3, distinct=1), "TASC-ft"),
        (words(2, 2, 0.0, distinct=1, before=0.0), "TASC-ft"),
        (words(2, 2, -0.05, distinct=50), "TASC-ft"),
        (words(1, 1, 0.0, distinct=1, before=0.0), "neither"),
        (words(17, 63, -0.577, outputs=2), "too little data"),
    ],
)
def test_the_choice_follows_the_numbers(seen, choice):
    verdict = decide(*seen)
    assert verdict.choice == choice
    assert verdict.reasons


def test_the_reasons_hold_the_measured_numbers():
    text = " ".join(decide(*tokens(ratio=2.34, spec=drafts(1.21, 1.25, speedup=1.1))).reasons)
    assert "500 new tokens" in text
    assert "2.34× fewer decoding steps" in text
    assert "20.0 per output without new tokens, including the end token" in text
    assert "TASC-ft pays" in text
    assert "tasc-spec commits 1.23 tokens per step (95 % CI 1.21 to 1.25)" in text
    assert "1.10× as fast" in text
    assert "TASC-spec does not pay" in text


def test_too_little_data_is_said_with_its_amount():
    (two,) = decide(*tokens(ratio=9.0, spec=drafts(9.0, samples=1), outputs=2)).reasons
    assert "Too little data to decide: 2 outputs" in two
    few = decide(*tokens(spec=drafts(9.0, samples=3))).reasons[-1]
    assert "too little data to decide: 3 outputs" in few
    assert "interval" not in few
    wide = decide(*tokens(spec=drafts(1.2, 2.2))).reasons[-1]
    assert "1.20 to 2.20" in wide
    assert "too little data to decide: 200 outputs" in wide


def test_words_alone_ask_for_a_tokenizer():
    found, spec, _ = tokens()
    assert "No n-gram" in decide(found, spec).reasons[0]
    refused = Prediction(refused="use --export added")
    assert decide(found, spec, refused).reasons[0] == "TASC-ft: use --export added."
    assert "pass --tokenizer" in decide(*words(17, 63, -0.577)).reasons[-1]
    little, much = (decide(*words(17, 63, change)).reasons[0] for change in (-0.577, 0.3))
    assert "entropy is 4.23 bits, 10.00 for the inputs: the outputs vary little" in little
    assert "entropy is 13.00 bits, 10.00 for the inputs: the outputs vary much" in much
    assert "500 outputs, 1 of them different" in decide(*words(9, 5, 0.3, distinct=1)).reasons[0]
