"""Pieces of an output's text join to its whole text, whatever the tokens are and how they come."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models

from tasc.decoding.core.stopping import StopStrings
from tasc.serving.http.model import TextStream
from tasc.tokenizer.output_text import OutputText
from tasc.tokenizer.text_pieces import TextPieces
from tasc.tokenizer.token_bytes import spell_bytes, token_speller

END = "</s>"
LETTERS = [" a", "b", " ", "é", "A", "¡ab", "\n"]
BYTES = [0x41, 0x20, 0xC3, 0xA9, 0xE2, 0x96, 0x81, 0xFF]
LLAMA = [
    decoders.Replace("▁", " "),
    decoders.ByteFallback(),
    decoders.Fuse(),
    decoders.Strip(" ", 1, 0),
]


def of_pieces(decoder):
    """A tokenizer with word marks, byte tokens, and added tokens."""
    pieces = ["▁", "▁▁", *(letter.replace(" ", "▁") for letter in LETTERS if letter != " ")]
    return built([*pieces, *(f"<0x{byte:02X}>" for byte in BYTES)], decoder)


def of_bytes():
    tokens = [spell_bytes(letter.encode()) for letter in LETTERS]
    return built([*tokens, *(spell_bytes(bytes([byte])) for byte in BYTES)], decoders.ByteLevel())


def built(tokens, decoder):
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_special_tokens([END, "<call>"])
    tokenizer.add_tokens([AddedToken("日本 ｜"), AddedToken("é é")])
    return tokenizer


PIECEWISE = {
    "bytes": of_bytes(),
    "llama": of_pieces(decoders.Sequence(LLAMA)),
    "gemma": of_pieces(decoders.Sequence(LLAMA[:3])),
    "metaspace": of_pieces(decoders.Metaspace()),
    "metaspace_first": of_pieces(decoders.Metaspace(prepend_scheme="first")),
}
WHOLE = {
    "wordpiece": of_pieces(decoders.WordPiece()),
    "rewriting": of_pieces(decoders.Replace(Regex("a+b"), "x")),
    "none": of_pieces(None),
}
EVERY = PIECEWISE | WHOLE
CUTS = st.lists(st.integers(1, 4), min_size=40, max_size=40)
IDS = st.lists(st.integers(0, 22), max_size=40)  # a few have no token


def text_of(tokenizer):
    return OutputText.of(tokenizer, [tokenizer.token_to_id(END)])


def steps_of(ids, cuts):
    at = 0
    for size in cuts:
        if at < len(ids):
            yield ids[at : at + size]
        at += size


def loaded_with(tokenizer):
    """What a stream reads of a model."""
    return SimpleNamespace(text=text_of(tokenizer), tokenizer=SimpleNamespace(tokenizer=tokenizer))


@settings(max_examples=30, deadline=None)
@pytest.mark.parametrize("kind", EVERY)
@given(IDS, CUTS)
def test_pieces_join_to_the_beginning_of_the_text(kind, ids, cuts):
    tokenizer = EVERY[kind]
    pieces, text = TextPieces(tokenizer, text_of(tokenizer)), ""
    for step in steps_of(ids, cuts):
        text += pieces.add(step)
    assert text_of(tokenizer)(ids).startswith(text)


@pytest.mark.parametrize("kind", PIECEWISE)
def test_text_that_cannot_change_is_not_held_back(kind):
    tokenizer = PIECEWISE[kind]
    pieces = TextPieces(tokenizer, text_of(tokenizer))
    tokens = ["b", "A", "<call>"]
    assert [pieces.add([tokenizer.token_to_id(token)]) for token in tokens] == tokens


def test_a_byte_that_makes_a_run_invalid_rewrites_nothing_that_was_sent():
    tokenizer = PIECEWISE["gemma"]
    b, a, lead = (tokenizer.token_to_id(token) for token in ("b", "<0x41>", "<0xE2>"))
    assert tokenizer.decode([b, a]) == "bA"
    assert tokenizer.decode([b, a, lead]) == "b\ufffd\ufffd"
    pieces = TextPieces(tokenizer, text_of(tokenizer))
    assert [pieces.add([i]) for i in (b, a, lead, b)] == ["b", "", "", "\ufffd\ufffdb"]


@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("kind", EVERY)
@given(
    IDS,
    CUTS,
    st.lists(
        st.sampled_from(["b", " a", "ab", "é", "bA", END, "b" + END, " ", "本", "\ufffd", "a b"]),
        max_size=3,
    ),
)
def test_a_stream_joins_to_the_text_before_the_stop_string(kind, ids, cuts, stops):
    tokenizer = EVERY[kind]
    loaded, end = loaded_with(tokenizer), tokenizer.token_to_id(END)
    rule = StopStrings(stops, token_speller(tokenizer)) if stops else None
    stream, sent, tokens = TextStream(loaded, stops), "", []
    for step in steps_of(ids, cuts):
        if end in step:
            step = step[: step.index(end) + 1]
        tokens += step
        cut = None if rule is None else rule.cut(tokens, len(step))
        if cut is not None:
            step = step[: len(step) - len(tokens) + cut]
            del tokens[cut:]
        sent += stream.add(np.array(step, np.int32))
        if cut is not None or end in step:
            break
    text = loaded.text(tokens) if rule is None else rule.text(tokens, loaded.text)
    assert sent + stream.end(text) == text


def test_a_stream_says_when_a_text_begins_otherwise():
    stream = TextStream(loaded_with(PIECEWISE["bytes"]), [])
    assert stream.add(np.array([1], np.int32)) == "b"
    with pytest.raises(RuntimeError, match="'b' was sent"):
        stream.end("a")


def test_the_cost_of_a_step_does_not_grow_with_the_output():
    """Each token is decoded a bounded number of times."""
    tokenizer, decoded = PIECEWISE["llama"], 0
    pieces = TextPieces(tokenizer, text_of(tokenizer))
    runs: Any = vars(pieces)["_piece"].__self__
    decode = runs.decode

    def counted(ids):
        nonlocal decoded
        decoded += len(ids)
        return decode(ids)

    runs.decode = counted
    space, b = tokenizer.token_to_id("▁"), tokenizer.token_to_id("b")
    for _ in range(500):
        pieces.add([b])
        pieces.add([space])
    assert decoded < 10_000
