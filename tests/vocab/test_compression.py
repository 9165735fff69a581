"""Replaying merges, and the figures of a report."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.backend import MergeRequest, get_backend
from tasc.vocab.compression import Compression, replay
from tasc.vocab.selection import steps


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_replaying_a_search_gives_its_token_counts(seed):
    rng = np.random.default_rng(seed)
    samples = [rng.integers(0, 5, rng.integers(0, 60)) for _ in range(8)]
    tokens = np.concatenate(samples).astype(np.int32)
    offsets = np.cumsum([0, *map(len, samples)]).astype(np.int64)
    weights = rng.integers(1, 4, 8)
    boundaries = rng.integers(0, 2, len(tokens)).astype(np.uint8) if seed % 2 else None
    found = get_backend().merge_search(
        MergeRequest(
            tokens=tokens,
            offsets=offsets,
            weights=weights,
            vocabulary=(b"a", b"b", b"ab", b"ba", b"c"),
            special=frozenset(),
            budget=20,
            alpha_pcs=1.1,
            boundaries=boundaries,
        )
    )
    for length, merge in enumerate(found.merges, start=1):
        left = replay(tokens, offsets, boundaries, steps(found, length))
        assert int(weights @ left) == merge.tokens


def test_figures_are_per_output_and_per_token():
    figures = Compression(outputs=4, bytes=120, before=40, predicted=12, reached=10).to_dict()
    assert figures["tokens_per_output"] == {"before": 10.0, "predicted": 3.0, "reached": 2.5}
    assert figures["bytes_per_token"] == {"before": 3.0, "predicted": 10.0, "reached": 12.0}
    assert figures["ratio"] == 4.0
