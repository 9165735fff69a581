"""How ``tasc init --hours`` divides the time, with given speeds."""

import re

import numpy as np
import pytest

from tasc.commands import lengths
from tasc.commands.starter import fit
from tasc.data.corpus import Corpus, Example
from tasc.data.source import Source
from tasc.errors import InputError
from tasc.progress import silent


@pytest.fixture
def fitted(monkeypatch):
    """Outputs have 30 tokens. An example takes 0.5 s to train, and 90 ``decoding`` to test."""
    monkeypatch.setattr(fit, "_lengths", lambda *_: (np.full(9, 20), np.full(9, 30)))

    def within(hours, decoding, count=4000):
        monkeypatch.setattr(fit, "_measure", lambda *_: (0.5, decoding))
        corpus = Corpus(Source(path="x"), "train", (Example("a", "b", "a"),) * count, "")
        return fit.within(fit.Fit("1e-3", "none", 64), hours, "model", None, corpus, 500, silent)

    return within


@pytest.mark.parametrize(
    ("hours", "decoding", "epochs", "limit", "test", "batch"),
    [
        (1, 0.01, 2.0, 1300, 200, 8),
        (4, 0.01, 2.5, None, 200, 32),
        (100, 0.01, 10.0, None, 200, 32),
        (0.2, 0.01, 2.0, 150, 200, 8),
        (2.5, 0.2, 2.0, 2350, 141, 16),
        (1, 0.5, 2.0, 750, 30, 8),
    ],
)
def test_they_fit(fitted, hours, decoding, epochs, limit, test, batch):
    found = fitted(hours, decoding)
    assert (found.epochs, found.limit, found.test) == (epochs, limit, test)
    assert found.batch_size <= found.effective_batch == batch
    # Both models take the time at most, with a validation that costs 0.4 of a training step.
    examples = found.limit or 4000
    seen = found.epochs * (examples + 0.4 * min(500, examples / 4))
    assert 2 * seen * 0.5 + test * 90 * decoding <= 0.85 * 3600 * hours
    # Decoding may take what training leaves.
    assert 2 * seen * 0.5 + 60 * found.minutes == pytest.approx(0.85 * 3600 * hours)


def test_lengths_are_those_of_examples_spread_evenly(monkeypatch):
    monkeypatch.setattr(lengths, "_READ", 3)
    examples = tuple(Example(f"{n}", "b", "a") for n in range(9))
    read = lengths.spread_evenly(Corpus(Source(path="x"), "train", examples, "")).examples
    assert [example.input for example in read] == ["0", "3", "6"]


def test_they_take_no_more_examples_than_there_are(fitted):
    assert fitted(0.379, 0.01, count=300).limit == 300  # 500 validation examples would cost more


@pytest.mark.parametrize("decoding", [0.01, 0.5])
def test_hours_that_an_error_names_are_enough(fitted, decoding):
    with pytest.raises(InputError) as error:
        fitted(0.01, decoding)
    named = float(re.search(r"--hours (\S+)", str(error.value))[1])
    assert fitted(named, decoding).limit >= 100
