"""Decoders and normalizers that leave new tokens as they are spelled, where spaces are marked.

Two things garble a token that holds spaces. A Metaspace decoder drops every mark of a text's first
token, and a Strip drops the space that a text's first added token begins with; the decoder put in
their position drops one mark from the text. A Prepend normalizer marks whatever follows an added
token that is found in the raw text; so new tokens are found in the normalized text, where they
begin with the mark of a space.
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
    """Replace the decoder of a tokenizer.json if it takes spaces off tokens."""
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
    """Whether the added tokens of a tokenizer.json are to be found in the normalized text.

    Raises InputError if text after an added token would gain a space.
    """
    if _PREPEND in members(state["normalizer"], "normalizers"):
        return True
    for part in members(state["pre_tokenizer"], "pretokenizers"):
        if part["type"] == "Metaspace" and part.get("prepend_scheme", "always") == "always":
            raise InputError(
                f"{path}: this tokenizer puts a space before whatever follows an added token, so "
                "text would not decode to itself: use --export pretoken"
            )
    return False


def prepend_but_to(state: dict[str, Any], contents: Iterable[str]) -> None:
    """Make a Prepend normalizer leave new tokens as they are: they begin with their own mark.

    The library normalizes the tokens as it does a text, so a text that is nothing but one of them,
    mark and all, cannot be told from it, and gains no second mark either.
    """
    as_they_are = trie(dict.fromkeys(["", *contents], r"\z"))
    pattern = {"Regex": rf"\A(?!{as_they_are})"}
    once = {"type": "Replace", "pattern": pattern, "content": MARK}
    parts = members(state["normalizer"], "normalizers")
    changed = [once if part == _PREPEND else part for part in parts]
    state["normalizer"] = {"type": "Sequence", "normalizers": changed}
