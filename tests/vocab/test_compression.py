"""Replaying merges, and the figures of a report."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.analysis.outputs import Outputs
from tasc.backend import MergeRequest, merge_search
from tasc.tokenizer.loaded import Encoded
from tasc.vocab.report import OutputSizes
from tasc.vocab.search.budget import replayed
from tasc.vocab.search.selection import live_tokens, steps


def search(encoded, weights, boundaries=None):
    return merge_search(
        MergeRequest(
            tokens=encoded.tokens,
            offsets=encoded.offsets,
            weights=weights,
            vocabulary=(b"a", b"b", b"ab", b"ba", b"c"),
            special=frozenset(),
            budget=20,
            alpha_pcs=1.1,
            boundaries=boundaries,
        )
    )


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_replaying_a_search_gives_its_token_counts(seed):
    rng = np.random.default_rng(seed)
    encoded = Encoded.of([rng.integers(0, 5, rng.integers(0, 60)) for _ in range(8)])
    weights = rng.integers(1, 4, 8)
    boundaries = rng.integers(0, 2, len(encoded.tokens)).astype(np.uint8) if seed % 2 else None
    found = search(encoded, weights, boundaries)
    counts = [found.tokens_before, *(merge.tokens for merge in found.merges)]
    assert replayed(found, Outputs([], weights, encoded, boundaries)) == counts


def merged(ids, step):
    out = []
    while ids:
        n = len(step.ids) if tuple(ids[: len(step.ids)]) == step.ids else 1
        out.append(step.new_id if n > 1 else ids[0])
        ids = ids[n:]
    return out


few = st.lists(st.integers(0, 3), min_size=1, max_size=6)
repeating = st.builds(lambda begin, times, end: begin * times + end, few, st.integers(1, 5), few)


@settings(max_examples=150, deadline=None)
@given(st.lists(repeating, min_size=1, max_size=5))
def test_what_stands_after_a_merge_is_what_the_samples_then_hold(samples):
    found = search(Encoded.of(samples), np.arange(1, len(samples) + 1))
    for length, (_, live) in enumerate(live_tokens(found, 5), start=1):
        counts = Counter()
        for weight, ids in enumerate(samples, start=1):
            for step in steps(found, length):
                ids = merged(ids, step)
            for t in ids:
                counts[t] += weight
        assert live == {t: n for t, n in counts.items() if t > 4 and n > 1}


def test_figures_are_per_output_and_per_token():
    tokens = {"before": 40, "predicted": 12, "reached": 10}
    sizes = OutputSizes.of(4, 120, tokens, 4)
    assert sizes.tokens_per_output == {"before": 10.0, "predicted": 3.0, "reached": 2.5}
    assert sizes.bytes_per_token == {"before": 3.0, "predicted": 10.0, "reached": 12.0}
    assert (sizes.ratio, sizes.new_token_uses) == (4.0, 4)
