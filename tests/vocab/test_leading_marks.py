"""Texts that begin with "▁" themselves decode as the base tokenizer decodes them.

That is not the text: a base tokenizer reads a mark as the space that it stands for.
"""

import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.augment import augment
from tests.options import AugmentOptions
from tests.vocab.marked import KINDS, MARK, marked
from tests.vocab.tiny import TEXTS, corpus

KEPT = [kind for kind in KINDS if not kind.endswith("always")]  # those are refused by ``added``
PIECES = [MARK, " ", "\n", "é", "日本語", *(word for text in TEXTS for word in text.split())]


@cache
def both(kind: str, export: Any) -> tuple[LoadedTokenizer, LoadedTokenizer]:
    base = marked(kind)
    options = AugmentOptions(new_tokens=40, pcs=2.0, export=export, min_gain=1e-9)
    made = augment(corpus(TEXTS * 3 + [f"so {text}" for text in TEXTS]), base, options)
    return base, LoadedTokenizer(made.tokenizer, kind)


def decoded(tokenizer: LoadedTokenizer, text: str) -> str:
    """The text that comes back; unknown characters in a row are one token or several."""
    ids = tokenizer.encode([text]).tokens.tolist()
    return re.sub("(<unk>)+", "<unk>", tokenizer.tokenizer.decode(ids, skip_special_tokens=False))


@pytest.mark.parametrize("export", ["pretoken", "added"])
@pytest.mark.parametrize("kind", KEPT)
@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=6))
def test_a_text_that_begins_with_a_mark_loses_no_space(kind, export, pieces):
    base, made = both(kind, export)
    text = MARK + "".join(pieces)
    new = {entry.content for entry in made.tokenizer.get_added_tokens_decoder().values()}
    if text not in new:
        assert decoded(made, text) == decoded(base, text)


@pytest.mark.parametrize("text", ["\n", " ", "\nthe house", MARK, f"{MARK} "])
def test_the_mark_before_a_text_is_put_before_any_character(text):
    base, made = both("bpe-normalizer", "added")
    assert decoded(made, text) == decoded(base, text)
    assert not made.encode([""]).tokens.size


def test_only_a_text_that_spells_a_new_token_and_nothing_else_is_read_as_that_token():
    base, made = both("bpe-normalizer", "added")
    size = len(base.vocabulary())
    spelled = made.tokenizer.id_to_token(size)
    assert spelled.startswith(MARK)
    assert made.encode([spelled]).tokens.tolist() == [size]
    assert size not in made.encode([spelled + "q"]).tokens.tolist()[:1]
