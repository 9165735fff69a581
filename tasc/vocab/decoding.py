"""Decoders and normalizers that leave new tokens as they are spelled, where blanks are marked.

Two things garble a token that holds blanks. A Metaspace decoder drops every mark of a text's first
token, and a Strip drops the blank that a text's first added token begins with; the decoder put in
their place drops one mark from the text. A Prepend normalizer marks whatever follows an added
token that is found in the raw text; so new tokens are found in the normalized text, where they
begin with the mark of a blank.
"""

from typing import Any

from tasc.data.word_marks import MARK, members
from tasc.errors import InputError

_BLANK_OFF = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
_MARK_TO_BLANK = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}
_FIRST_MARK_OFF = {"type": "Replace", "pattern": {"Regex": rf"\A{MARK}"}, "content": ""}
_FUSE = {"type": "Fuse"}
_PREPEND = {"type": "Prepend", "prepend": MARK}
# As Prepend, but not where a mark is already: a new token begins with its own.
_PREPEND_ONCE = {"type": "Replace", "pattern": {"Regex": rf"\A(?=[^{MARK}])"}, "content": MARK}


def keep_blanks(state: dict[str, Any]) -> None:
    """Replace the decoder of a tokenizer.json if it takes blanks off tokens."""
    parts = members(state["decoder"], "decoders")
    kinds = [part["type"] for part in parts]
    if kinds == ["Metaspace"]:
        bytes_ = []
        drops = parts[0].get("prepend_scheme", "always") != "never"
    elif _BLANK_OFF in parts and _MARK_TO_BLANK in parts:
        bytes_ = [part for part in parts if part["type"] == "ByteFallback"]
        drops = True
    else:
        return
    first = [_FIRST_MARK_OFF] if drops else []
    state["decoder"] = {"type": "Sequence", "decoders": [*bytes_, _FUSE, *first, _MARK_TO_BLANK]}


def find_in_normalized(state: dict[str, Any], path: str) -> bool:
    """Make a tokenizer.json fit for added tokens; True if they are to be found normalized.

    Raises InputError if text after an added token would gain a blank.
    """
    parts = members(state["normalizer"], "normalizers")
    if _PREPEND in parts:
        changed = [_PREPEND_ONCE if part == _PREPEND else part for part in parts]
        state["normalizer"] = {"type": "Sequence", "normalizers": changed}
        return True
    for part in members(state["pre_tokenizer"], "pretokenizers"):
        if part["type"] == "Metaspace" and part.get("prepend_scheme", "always") == "always":
            raise InputError(
                f"{path}: this tokenizer puts a blank before whatever follows an added token, so "
                "text would not decode to itself: use --export pretoken"
            )
    return False
