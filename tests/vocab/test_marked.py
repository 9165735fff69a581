"""What is particular to tokenizers that mark spaces with "▁": SentencePiece's BPE and Unigram."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.word_boundaries import splitting
from tasc.vocab.augment import augment
from tests.options import AugmentOptions
from tests.vocab.marked import KINDS, MARK, marked
from tests.vocab.test_export import ALWAYS, PAIRS, made_from, small
from tests.vocab.tiny import OUTPUTS, TEXTS, corpus

KEPT = [(kind, export) for kind, export in PAIRS if kind in KINDS and kind not in ALWAYS]
PIECES = [MARK, " ", "\n", "é", "日本語", *(word for text in TEXTS for word in text.split())]


def decoded(tokenizer: LoadedTokenizer, text: str) -> str:
    """The text that comes back; unknown characters in a row are one token or several."""
    ids = tokenizer.encode([text]).tokens.tolist()
    return re.sub("(<unk>)+", "<unk>", tokenizer.tokenizer.decode(ids, skip_special_tokens=False))


@pytest.mark.parametrize(("kind", "export"), KEPT)
@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=6))
def test_a_text_that_begins_with_a_mark_decodes_as_the_base_tokenizer_decodes_it(
    kind, export, pieces
):
    """That is not the text: a base tokenizer reads a mark as the space that it stands for."""
    made, saved = made_from(kind, export)
    text = MARK + "".join(pieces)
    new = {entry.content for entry in made.tokenizer.get_added_tokens_decoder().values()}
    if text not in new:
        assert decoded(saved, text) == decoded(small(kind), text)


@pytest.mark.parametrize("text", ["\n", " ", "\nthe house", MARK, f"{MARK} "])
def test_the_mark_before_a_text_is_put_before_any_character(text):
    _, saved = made_from("bpe-normalizer", "added")
    assert decoded(saved, text) == decoded(small("bpe-normalizer"), text)
    assert not saved.encode([""]).tokens.size


def test_only_a_text_that_spells_a_new_token_and_nothing_else_is_read_as_that_token():
    made, saved = made_from("bpe-normalizer", "added")
    size = made.report.base_size
    spelled = made.tokenizer.id_to_token(size)
    assert spelled.startswith(MARK)
    assert saved.encode([spelled]).tokens.tolist() == [size]
    assert size not in saved.encode([spelled + "q"]).tokens.tolist()[:1]


@pytest.mark.parametrize("kind", ALWAYS)
def test_where_an_added_token_would_gain_a_space_behind_it_one_line_says_so(kind):
    with pytest.raises(InputError, match=rf"{kind}: .* inserts a space after .* --export pretoken"):
        made_from(kind, "added")


@pytest.mark.parametrize("kind", ["bpe-normalizer", "unigram-normalizer"])
def test_with_a_prepending_normalizer_only_words_with_their_space_are_added(kind):
    made, _ = made_from(kind, "added")
    assert made.report.excluded["no_space"] > 0
    assert all(token.string.startswith(" ") for token in made.tokens)


def test_a_vocabulary_with_tokens_across_words_is_not_cut():
    state = json.loads(small("bpe-first").tokenizer.to_str())
    assert splitting(state) is not None
    state["model"]["vocab"] |= {f"{a}▁b": 999 + k for k, a in enumerate("acde")}
    assert splitting(state) is None


@pytest.mark.parametrize("name", ["llama2", "mistral-v1", "mistral-v3"])
@pytest.mark.parametrize("export", ["pretoken", "added"])
def test_real_vocabularies(real_tokenizer, name, export):
    options = AugmentOptions(new_tokens=12, export=export)
    made = augment(corpus(OUTPUTS), real_tokenizer(name), options, OUTPUTS[::7])
    assert (made.report.unused, made.report.changed) == (0, 0)
    tokens = made.report.train.tokens
    assert tokens["predicted"] == tokens["reached"] < tokens["before"] / 3


def test_no_split_where_a_token_could_cross_it():
    base = marked("bpe-gemma")
    for text in (", slot", "a, s, s", ",  s", ", t", "x, s"):
        cut, _ = base.encode_with_boundaries([text])
        assert cut.tokens.tolist() == base.encode([text]).tokens.tolist()
    ids, starts = base.encode_with_boundaries(["a, s b"])
    assert base.tokenizer.token_to_id(",▁s") in ids.tokens
    assert starts.sum() == 3  # "a", ",▁s" and "▁b"
