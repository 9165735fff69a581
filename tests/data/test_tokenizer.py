"""Token strings as bytes, flat encodings, pre-token boundaries, and tokenizer files."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from tasc.errors import InputError
from tasc.tokenizer import loaded as module
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.token_bytes import byte_alphabet, spell_bytes
from tests.data.byte_level import SAMPLES, strings_of, train
from tests.pico import TEXTS

BYTE_LEVEL = LoadedTokenizer(train(), "trained")


def test_the_byte_alphabet_holds_each_byte_once():
    table = byte_alphabet()
    assert sorted(table.values()) == list(range(256))
    assert set(table) == set(pre_tokenizers.ByteLevel.alphabet())
    assert spell_bytes(b" a\n") == "ĠaĊ"


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_the_bytes_of_its_tokens(text):
    assert b"".join(strings_of(BYTE_LEVEL, text)).decode() == text.replace("<|endoftext|>", "")


def test_special_tokens_have_no_string_and_added_ones_their_text():
    tokenizer = train()
    tokenizer.add_tokens([" naïve the"])
    loaded = LoadedTokenizer(tokenizer, "added")
    vocabulary = loaded.vocabulary()
    assert len(vocabulary) == tokenizer.get_vocab_size()
    assert vocabulary[-1] == " naïve the".encode()
    assert vocabulary[tokenizer.token_to_id("<|endoftext|>")] == b""
    assert loaded.special_ids == {tokenizer.token_to_id("<|endoftext|>")}


def test_texts_are_encoded_one_after_the_other():
    encoded = BYTE_LEVEL.encode(SAMPLES)
    assert encoded.tokens.dtype == np.int32
    assert encoded.offsets.dtype == np.int64
    assert encoded.offsets[0] == 0
    assert encoded.offsets[-1] == len(encoded.tokens)
    for position, text in enumerate(SAMPLES):
        part = encoded.tokens[encoded.offsets[position] : encoded.offsets[position + 1]]
        assert part.tolist() == BYTE_LEVEL.tokenizer.encode(text).ids
        assert b"".join(strings_of(BYTE_LEVEL, text)).decode() == text.replace("<|endoftext|>", "")


def test_no_texts_give_no_tokens():
    encoded, starts = BYTE_LEVEL.encode_with_boundaries([])
    assert (len(encoded.tokens), encoded.offsets.tolist(), len(starts)) == (0, [0], 0)


@pytest.mark.parametrize("text", [sample for sample in SAMPLES if "<|" not in sample])
def test_boundaries_are_where_the_pre_tokenizer_splits(text):
    pieces = [piece for piece, _ in BYTE_LEVEL.tokenizer.pre_tokenizer.pre_tokenize_str(text)]
    starts = BYTE_LEVEL.encode_with_boundaries([text])[1]
    joined = []
    for start, string in zip(starts, strings_of(BYTE_LEVEL, text), strict=True):
        if start:
            joined.append(b"")
        joined[-1] += string
    assert starts.dtype == np.uint8
    assert joined == [bytes(byte_alphabet()[letter] for letter in piece) for piece in pieces]


def test_an_emoji_of_several_tokens_is_one_pre_token():
    starts = BYTE_LEVEL.encode_with_boundaries(["🦜🦜 x"])[1]
    assert len(starts) > 4
    assert starts.sum() == 2


def test_each_sample_and_each_added_token_starts_a_pre_token():
    texts = ["the", "the", "a<|endoftext|>b"]
    encoded, starts = BYTE_LEVEL.encode_with_boundaries(texts)
    assert starts[encoded.offsets[:-1]].tolist() == [1, 1, 1]
    assert starts[-3:].tolist() == [1, 1, 1]
    assert np.array_equal(encoded.tokens, BYTE_LEVEL.encode(texts).tokens)


def test_without_a_pre_tokenizer_a_sample_is_one_pre_token():
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "▁": 2}, []))
    loaded = LoadedTokenizer(tokenizer, "bare")
    assert loaded.encode_with_boundaries(["ab", "ba"])[1].tolist() == [1, 0, 1, 0]


def test_sentencepiece_spellings_become_bytes():
    vocabulary = {"<unk>": 0, "</s>": 1, "<0x0A>": 2, "<0xF0>": 3, "▁the": 4, "a": 5, "▁": 6}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["</s>"])
    loaded = LoadedTokenizer(tokenizer, "pieces")
    assert loaded.vocabulary() == [b"", b"", b"\n", b"\xf0", b" the", b"a", b" "]
    assert loaded.special_ids == {0, 1}
    assert loaded.eos_id == 1


def test_unigram_wordpiece_and_word_suffix_spellings_become_bytes():
    unigram = Tokenizer(models.Unigram([("▁the", -1.0), ("x", -2.0)]))
    unigram.decoder = decoders.Metaspace()
    assert LoadedTokenizer(unigram, "u").vocabulary() == [b" the", b"x"]
    pieces = {"[UNK]": 0, "the": 1, "##ory": 2}
    wordpiece = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    assert LoadedTokenizer(wordpiece, "w").vocabulary() == [b"", b" the", b"ory"]
    suffixed = Tokenizer(models.BPE({"the</w>": 0, "th": 1}, [], end_of_word_suffix="</w>"))
    assert LoadedTokenizer(suffixed, "s").vocabulary() == [b"the ", b"th"]


def test_ids_that_no_token_has_are_empty():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 3}, unk_token="?"))
    assert LoadedTokenizer(tokenizer, "holes").vocabulary() == [b"a", b"", b"", b"b"]


def test_a_normalizer_does_not_move_the_boundaries():
    tokenizer = train()
    tokenizer.normalizer = normalizers.NFC()
    loaded = LoadedTokenizer(tokenizer, "nfc")
    assert loaded.encode_with_boundaries(["cafe\u0301 the"])[1].sum() == 2


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
