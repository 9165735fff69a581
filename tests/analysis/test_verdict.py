"""The verdict follows its rule and gives its reasons."""

import pytest

from tasc.analysis.verdict import BUDGET, Evidence, decide


def tokens(steps=20.0, ratio=1.0, replay=1.0):
    return Evidence(10, 100, -0.3, steps, ratio, BUDGET, replay)


@pytest.mark.parametrize(
    ("seen", "choice"),
    [
        (tokens(ratio=2.0), "TASC-ft"),
        (tokens(replay=2.0), "TASC-spec"),
        (tokens(ratio=2.0, replay=2.0), "both"),
        (tokens(), "neither"),
        (tokens(steps=3.0, ratio=3.0, replay=3.0), "neither"),
        (tokens(ratio=1.5, replay=1.5), "both"),
        (tokens(ratio=1.49, replay=1.49), "neither"),
        (tokens(ratio=1.496, replay=1.494), "TASC-ft"),  # what is shown: 1.50 and 1.49
        (tokens(ratio=2.0, replay=None), "TASC-ft"),
        (Evidence(1.0, 3, -0.8), "neither"),
        (Evidence(17, 63, -0.577), "TASC-ft"),
        (Evidence(200, 111_600, -0.05), "TASC-spec"),
        (Evidence(200, 5_000, 0.3), "TASC-spec"),
    ],
)
def test_the_choice_follows_the_numbers(seen, choice):
    verdict = decide(seen)
    assert verdict.choice == choice
    assert verdict.reasons


def test_the_reasons_hold_the_measured_numbers():
    text = " ".join(decide(tokens(ratio=2.34, replay=1.23)).reasons)
    assert "500 added tokens" in text
    assert "2.34×" in text
    assert "TASC-ft pays" in text
    assert "1.23 tokens a step" in text
    assert "TASC-spec does not pay" in text


def test_words_alone_ask_for_a_tokenizer():
    assert "No n-gram" in decide(Evidence(10, 100, -0.3, 20.0, 1.0, 0, 1.0)).reasons[0]
    assert "name a tokenizer" in decide(Evidence(17, 63, -0.577)).reasons[-1]
    assert "58% below" in decide(Evidence(17, 63, -0.577)).reasons[0]
    assert "30% above" in decide(Evidence(17, 63, 0.3)).reasons[0]
