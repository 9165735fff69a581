"""The text of an output in pieces while its tokens come, at a cost that grows with them alone."""

import codecs
import json
from collections.abc import Callable, Iterable
from typing import Any

from tokenizers import Tokenizer

from tasc.tokenizer.output_text import Decode, OutputText, decoder_of
from tasc.tokenizer.token_bytes import BYTE_PIECE, MARK, token_speller

_PIECEWISE = {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}


class TextPieces:
    """The text of one output in pieces that no later token changes.

    The pieces join to the beginning of what ``OutputText`` makes of the whole output. What is
    missing at the end: an unfinished character of a byte-level tokenizer; or a run of byte tokens
    such as ``<0xE2>``, which is decoded as a whole. Tokenizers with another decoder, such as
    WordPiece, may rewrite any text with the next token, so they have no pieces.
    """

    def __init__(self, tokenizer: Tokenizer, text: OutputText) -> None:
        """Take the tokenizer of ``text``."""
        self._ends = text.ends
        self._waiting = list[int]()  # end tokens: text only if other tokens follow
        self._piece = _piecewise(tokenizer)

    def add(self, tokens: Iterable[int]) -> str:
        """Return the next piece, after ``tokens`` were added to the output."""
        ready = list[int]()
        for token in tokens:
            self._waiting.append(token)
            if token not in self._ends:
                ready += self._waiting
                self._waiting.clear()
        return self._piece(ready) if ready else ""


def _piecewise(tokenizer: Tokenizer) -> Callable[[list[int]], str]:
    """Return a function from the next tokens of one output to its next piece."""
    parts = _decoder_parts(tokenizer)
    kinds = {part["type"] for part in parts}
    spell = token_speller(tokenizer)
    if kinds == {"ByteLevel"}:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return lambda tokens: decoder.decode(b"".join(map(spell, tokens)))
    if kinds and kinds <= _PIECEWISE and all(map(_is_local, parts)):
        return _Runs(tokenizer, decoder_of(tokenizer), spell).add
    return lambda _: ""


def _decoder_parts(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    if tokenizer.decoder is None:
        return []
    described: dict[str, Any] = json.loads(tokenizer.decoder.__getstate__())
    parts: list[dict[str, Any]] = described.get("decoders", [described])
    return parts


def _is_local(part: dict[str, Any]) -> bool:
    """Return whether a part of a decoder changes single tokens and the first space only."""
    if part["type"] == "Replace":
        return bool(part["pattern"] == {"String": MARK})
    return part["type"] != "Strip" or bool(part["start"] <= 1 and part["stop"] == 0)


class _Runs:
    """Pieces of a tokenizer that decodes each run of byte tokens as a whole."""

    def __init__(self, tokenizer: Tokenizer, decode: Decode, spell: Callable[[int], bytes]) -> None:
        self.tokenizer, self.decode, self.spell = tokenizer, decode, spell
        self.run = list[int]()  # of byte tokens, which later ones may change
        # Tokens with text before the run: the decoder may strip a space where a text begins.
        self.context = list[int]()

    def add(self, tokens: list[int]) -> str:
        self.run += [token for token in tokens if self.spell(token)]
        size = len(self.run)
        while size and self._is_byte(self.run[size - 1]):
            size -= 1
        if not size:
            return ""
        known = self.context + self.run[:size]
        piece = self.decode(known)[len(self.decode(self.context)) :]
        count = next((n for n in range(1, len(known)) if self.decode(known[-n:])), len(known))
        self.context, self.run = known[-count:], self.run[size:]
        return piece

    def _is_byte(self, token: int) -> bool:
        return BYTE_PIECE.fullmatch(self.tokenizer.id_to_token(token) or "") is not None
