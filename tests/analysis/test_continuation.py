"""The replay of held-out outputs, against a slow one written from the definition."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.analysis.continuation import replay
from tasc.data.tokenizer import Encoded
from tasc.errors import InputError

SAMPLES = st.lists(st.lists(st.integers(0, 3), max_size=8), min_size=1, max_size=6)
END = 99


def encoded(samples):
    offsets = np.cumsum([0, *map(len, samples)]).astype(np.int64)
    return Encoded(np.array([t for sample in samples for t in sample], dtype=np.int32), offsets)


def slow(corpus, held_out, n_max, draft):
    """One step: offer up to ``draft`` tokens, each the best guess after those that were right."""
    tables = defaultdict(Counter)
    for sample in corpus:
        stream = [*sample, END]
        for place, token in enumerate(stream):
            for order in range(min(n_max - 1, place) + 1):
                tables[tuple(stream[place - order : place])][token] += 1

    def guess(prefix):
        for order in range(min(n_max - 1, len(prefix)), -1, -1):
            table = tables.get(tuple(prefix[len(prefix) - order :]))
            if table:
                return min(table, key=lambda token: (-table[token], token))
        return None

    steps = tokens = right = 0
    for sample in held_out:
        stream, place = [*sample, END], 0
        tokens += len(stream)
        right += sum(guess(stream[:i]) == stream[i] for i in range(len(stream)))
        while place < len(stream):
            steps += 1
            offered = 0
            while (
                offered < draft and place < len(stream) and guess(stream[:place]) == stream[place]
            ):
                place += 1
                offered += 1
            place += 1  # the token that the target adds; past the end it is none
    return tokens, right, steps


@settings(max_examples=80, deadline=None)
@given(SAMPLES, SAMPLES, st.integers(1, 4), st.integers(1, 3))
def test_the_replay_agrees_with_the_definition(corpus, held_out, n_max, draft):
    found = replay(encoded(corpus), encoded(held_out), n_max, draft)
    tokens, right, steps = slow(corpus, held_out, n_max, draft)
    assert found.tokens == tokens
    assert found.accuracy == pytest.approx(right / tokens)
    assert found.tokens_per_step == pytest.approx(tokens / steps)
    assert (found.samples, found.draft) == (len(held_out), draft)


def test_outputs_that_recur_are_guessed_whole():
    samples = [[1, 2, 3, 4, 5, 6, 7]] * 5
    found = replay(encoded(samples), encoded(samples[:1]), 4, 8)
    # 8 tokens with the end: the first is unknown without context, then seven are right
    assert found.accuracy >= 7 / 8
    assert found.tokens_per_step >= 4


def test_a_side_without_samples_is_refused():
    nothing = Encoded(np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64))
    with pytest.raises(InputError, match="both sides"):
        replay(nothing, encoded([[1]]))
