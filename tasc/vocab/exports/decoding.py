"""Decoders and normalizers that keep the spaces of new tokens in tokenizers that mark spaces.

Two parts of a tokenizer garble a token that contains spaces. A Metaspace decoder drops every mark
of the first token, and Strip drops the space that starts the first added token; the replacement
decoder drops one mark from the text. A Prepend normalizer marks the text after an added token that
was matched in raw text; so new tokens are matched in normalized text and start with a mark.
"""

from collections.abc import Iterable
from typing import Any

from tasc.errors import InputError
from tasc.tokenizer.token_bytes import MARK
from tasc.tokenizer.word_boundaries import members
from tasc.vocab.exports.pattern import trie

_SPACE_OFF = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
_MARK_TO_SPACE = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}
_FIRST_MARK_OFF = {"type": "Replace", "pattern": {"Regex": rf"\A{MARK}"}, "content": ""}
_FUSE = {"type": "Fuse"}
_PREPEND = {"type": "Prepend", "prepend": MARK}


def keep_spaces(state: dict[str, Any]) -> None:
    """Replace the decoder of a tokenizer.json if it strips spaces from tokens."""
    parts = members(state["decoder"], "decoders")
    kinds = [part["type"] for part in parts]
    if kinds == ["Metaspace"]:
        bytes_ = []
        drops = parts[0].get("prepend_scheme", "always") != "never"
    elif _SPACE_OFF in parts and _MARK_TO_SPACE in parts:
        bytes_ = [part for part in parts if part["type"] == "ByteFallback"]
        drops = True
    else:
        return
    first = [_FIRST_MARK_OFF] if drops else []
    state["decoder"] = {"type": "Sequence", "decoders": [*bytes_, _FUSE, *first, _MARK_TO_SPACE]}


def found_in_normalized(state: dict[str, Any], path: str) -> bool:
    """Return whether the added tokens of a tokenizer.json must be matched in normalized text.

    Raises InputError if text after an added token would gain a space.
    """
    if _PREPEND in members(state["normalizer"], "normalizers"):
        return True
    for part in members(state["pre_tokenizer"], "pretokenizers"):
        if part["type"] == "Metaspace" and part.get("prepend_scheme", "always") == "always":
            raise InputError(
                f"{path}: this tokenizer inserts a space after each added token, so text would not "
                "decode to itself: use --export pretoken, or no new tokens if that is refused too"
            )
    return False


def prepend_but_to(state: dict[str, Any], contents: Iterable[str]) -> None:
    """Make a Prepend normalizer skip new tokens, which already start with a mark.

    The library normalizes a token as it normalizes a text, so a text that equals a new token gains
    no second mark either.
    """
    skipped = trie(dict.fromkeys(["", *contents], r"\z"))
    pattern = {"Regex": rf"\A(?!{skipped})"}
    once = {"type": "Replace", "pattern": pattern, "content": MARK}
    parts = members(state["normalizer"], "normalizers")
    changed = [once if part == _PREPEND else part for part in parts]
    state["normalizer"] = {"type": "Sequence", "normalizers": changed}
