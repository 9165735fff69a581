"""The bytes of every token id, for each way in which tokenizers write their tokens.

The project compares tokens as bytes: the byte-level alphabet, "▁" and "<0x0A>" are notations of
individual tokenizers.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from tokenizers import Tokenizer

BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
MARK = "▁"  # of a space


@cache
def byte_alphabet() -> dict[str, int]:
    """Return the character -> byte table of byte-level BPE.

    Printable Latin-1 bytes map to themselves, the other 68 to the characters from U+0100 on.
    """
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(shown)]
    table = {chr(byte): byte for byte in shown}
    return table | {chr(0x100 + position): byte for position, byte in enumerate(hidden)}


def spell_bytes(string: bytes) -> str:
    """Return ``string`` in the byte-level alphabet."""
    return string.decode("latin-1").translate(_letters())


def literal(text: str) -> str:
    """Return a regular expression for the text itself."""
    return "".join(
        c if c.isalnum() or ord(c) > 127 else f"\\x{{{ord(c):X}}}"  # no character is special then
        for c in text
    )


def token_strings(tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes of each id, ``b""`` for special tokens and unused ids.

    A token that starts a word in a vocabulary with word marks ("▁x", or "x" next to "##x") begins
    with a space, as in running text.
    """
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    spell = _speller(tokenizer)
    marks = bool(_kinds(tokenizer.decoder) & {"Metaspace", "Replace"})
    strings = [b""] * (max(vocabulary.values(), default=-1) + 1)
    for text, token in vocabulary.items():
        strings[token] = spell(text)
    for token, added in tokenizer.get_added_tokens_decoder().items():
        content = added.content.replace(MARK, " ") if marks else added.content
        strings[token] = b"" if added.special else content.encode()
    for token in special_tokens(tokenizer):
        strings[token] = b""
    return strings


def token_speller(tokenizer: Tokenizer) -> Callable[[int], bytes]:
    """Return a function from an id to its bytes in running text, special tokens included.

    An id without a token has none.
    """
    spell = _speller(tokenizer)

    @cache
    def bytes_of(token: int) -> bytes:
        text: str | None = tokenizer.id_to_token(token)
        return b"" if text is None else spell(text)

    return bytes_of


def special_tokens(tokenizer: Tokenizer) -> frozenset[int]:
    """Return the ids without a text: special added tokens and the unknown token."""
    added = tokenizer.get_added_tokens_decoder()
    special = {token for token, entry in added.items() if entry.special}
    unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "")
    return frozenset(special if unknown is None else special | {unknown})


@cache
def _letters() -> dict[int, str]:
    return {byte: letter for letter, byte in byte_alphabet().items()}


def _speller(tokenizer: Tokenizer) -> Callable[[str], bytes]:
    kinds = _kinds(tokenizer.decoder) | _kinds(tokenizer.pre_tokenizer)
    if "ByteLevel" in kinds:
        return _from_alphabet
    if type(tokenizer.model).__name__ == "WordPiece":
        mark = tokenizer.model.continuing_subword_prefix
        return lambda text: _from_wordpiece(text, mark)
    suffix = getattr(tokenizer.model, "end_of_word_suffix", None) or ""
    fallback = "ByteFallback" in kinds or bool(getattr(tokenizer.model, "byte_fallback", False))
    return lambda text: _from_pieces(text, suffix, fallback)


def _from_alphabet(text: str) -> bytes:
    table = byte_alphabet()
    try:
        return bytes([table[letter] for letter in text])
    except KeyError:  # a token that was added to the vocabulary as plain text
        return text.encode()


def _from_wordpiece(text: str, mark: str) -> bytes:
    return text[len(mark) :].encode() if text.startswith(mark) else b" " + text.encode()


def _from_pieces(text: str, suffix: str, fallback: bool) -> bytes:
    if fallback and (byte_piece := BYTE_PIECE.fullmatch(text)):
        return bytes([int(byte_piece[1], 16)])
    if suffix and text.endswith(suffix):
        text = text[: -len(suffix)] + " "
    return text.replace(MARK, " ").encode()


def _kinds(part: Any) -> set[str]:  # noqa: ANN401 - the library has no common type
    if part is None:
        return set()
    described = json.loads(part.__getstate__())
    members = described.get("decoders", []) + described.get("pretokenizers", [])
    return {described["type"]} | {member["type"] for member in members}
