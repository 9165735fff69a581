"""Texts are encoded some at a time: the library's own encodings take 200 times a text's bytes."""

import numpy as np
import pytest

from tasc.errors import InputError
from tasc.tokenizer import loaded as module
from tests.pico import TEXTS


def test_a_text_too_large_to_encode_is_refused_with_the_limit(tokenizer):
    texts = ["a", "é" * (2 << 20), "b" * ((4 << 20) + 1)]
    for encode in (tokenizer.encode, tokenizer.encode_with_boundaries):
        with pytest.raises(InputError, match=r"4,194,305 bytes, more than 4,194,304"):
            encode([texts[0], "", texts[2]])
    assert len(tokenizer.encode(texts[1:2]).offsets) == 2


def test_large_texts_are_handed_over_few_at_a_time(tokenizer, monkeypatch):
    texts = [*TEXTS, "", "é" * 200, *TEXTS]
    whole = tokenizer.encode(texts)
    monkeypatch.setattr(module, "_BATCH_BYTES", 100)
    handed: list[list[str]] = []
    entries = type(tokenizer)._entries
    monkeypatch.setattr(
        type(tokenizer), "_entries", lambda *a: handed.append(a[2]) or entries(*a), raising=True
    )
    parts = tokenizer.encode(texts)
    assert all(sum(len(t.encode()) for t in batch) <= 100 or len(batch) == 1 for batch in handed)
    assert [text for batch in handed for text in batch] == texts
    assert np.array_equal(parts.tokens, whole.tokens)
    assert np.array_equal(parts.offsets, whole.offsets)
