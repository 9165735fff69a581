"""N-gram counting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.backend import get_backend
from tasc.errors import InputError

BACKENDS = [get_backend("native"), get_backend("reference")]


def corpus(samples):
    tokens = np.array([t for s in samples for t in s], np.int32)
    return tokens, np.cumsum([0, *map(len, samples)]).astype(np.int64)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), max_size=30), max_size=6), st.integers(1, 9))
def test_native_and_reference_agree(samples, n):
    native, reference = (backend.count_ngrams(*corpus(samples), n) for backend in BACKENDS)
    np.testing.assert_array_equal(native.ids, reference.ids)
    np.testing.assert_array_equal(native.counts, reference.counts)
    assert native.ids.shape == (len(native.counts), n)


@pytest.mark.parametrize("backend", BACKENDS)
def test_bigrams_are_sorted_by_count_then_ids_and_never_cross_samples(backend):
    found = backend.count_ngrams(*corpus([[5, 2**31 - 1, 5], [1, 1, 1], [], [5, 0]]), 2)
    assert found.ids.tolist() == [[1, 1], [5, 0], [5, 2**31 - 1], [2**31 - 1, 5]]
    assert found.counts.tolist() == [2, 1, 1, 1]
    assert (found.ids.dtype, found.counts.dtype) == (np.int32, np.int64)


@pytest.mark.parametrize("backend", BACKENDS)
def test_malformed_arrays_are_refused(backend):
    tokens, offsets = corpus([[1, 2, 3]])
    with pytest.raises(InputError, match="n must be at least 1, got 0"):
        backend.count_ngrams(tokens, offsets, 0)
    with pytest.raises(InputError, match="offsets must run from 0 to the number of tokens, 3"):
        backend.count_ngrams(tokens, offsets[:1], 2)
    with pytest.raises(InputError, match="must not be negative"):
        backend.count_ngrams(-tokens, offsets, 2)
    with pytest.raises(InputError, match="offsets must be one row of int64"):
        backend.count_ngrams(tokens, offsets.astype(np.int32), 2)
