"""Pre-tokens for tokenizers that mark spaces with "▁", such as SentencePiece.

These tokenizers hardly split a text. But no token crosses some positions, such as that between a
letter and the next mark, so splitting there does not change the tokens. The finest of a few
patterns that splits hardly any token of the vocabulary is used, and does not split where such a
token could be (Gemma has ">▁</"). (Consecutive unknown characters are one unknown token; if they
are split, they are two.)
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Regex, Tokenizer, pre_tokenizers

from tasc.tokenizer.token_bytes import BYTE_PIECE, MARK, literal

_WORD = r"[\p{L}\p{M}]+"
_OTHER = rf"[^{MARK}\n\p{{L}}\p{{M}}\p{{Nd}}]+"
# The part of a pre-token after a mark, the finest first: single digits, then numbers, then whole
# words, then words with line ends.
_CUTS = (
    (_WORD, r"\p{Nd}", _OTHER),
    (_WORD, r"\p{Nd}+", _OTHER),
    (rf"[^{MARK}\n]+",),
    (rf"[^{MARK}]+",),
)
_ACROSS = 100  # of this many tokens, one may cross a split


@dataclass(frozen=True)
class Splitting:
    """A pattern for texts with marks, and the pre-tokenizers that come first."""

    pattern: str
    before: tuple[dict[str, Any], ...] = ()
    # Look-aheads under which the pattern does not split, each with a text that it matches.
    joins: dict[str, str] = field(default_factory=dict)

    def described(self, pattern: str | None = None) -> dict[str, Any]:
        """Return the pre-tokenizer for a tokenizer.json, with this or another pattern."""
        regex = {"Regex": self.pattern if pattern is None else pattern}
        split = {"type": "Split", "pattern": regex, "behavior": "Isolated", "invert": False}
        return {"type": "Sequence", "pretokenizers": [*self.before, split]}


def splitting(state: dict[str, Any]) -> Splitting | None:
    """Return how the tokenizer of a tokenizer.json can split texts; None if it has no marks.

    Also None if a token crosses words, or whitespace is removed before it can be marked.
    """
    if state["model"]["type"] not in {"BPE", "Unigram"}:
        return None
    parts = members(state["pre_tokenizer"], "pretokenizers")
    parts = [part for part in parts if part.get("pattern") != {"String": " "}]  # all are marked
    before: tuple[dict[str, Any], ...] = ()
    runs = True  # whether several marks can be one token
    if parts and parts[0]["type"] == "Metaspace":
        first = parts.pop(0)
        if first["replacement"] != MARK:
            return None
        runs = not first.get("split", True)
        before = (first | {"split": False},)
    elif not _marks(state["normalizer"]):
        return None
    if not parts:
        pattern, joins = _finest(state, runs=runs)
        return Splitting(pattern, before, joins) if pattern else None
    if [part["type"] for part in parts] == ["Split"] and parts[0]["behavior"] == "Isolated":
        return Splitting(parts[0]["pattern"].get("Regex"), before)
    return None


def cut_finely(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer with the same tokens and smaller pre-tokens, if it marks spaces."""
    state = json.loads(tokenizer.to_str())
    splits = splitting(state)
    if splits is None:
        return tokenizer
    return Tokenizer.from_str(json.dumps(state | {"pre_tokenizer": splits.described()}))


def _finest(state: dict[str, Any], *, runs: bool) -> tuple[str, dict[str, str]]:
    """Return the first pattern that splits hardly any token, and the look-aheads of its joins."""
    model = state["model"]
    added = {entry["content"] for entry in state["added_tokens"]}
    entries = model["vocab"] if model["type"] == "BPE" else (text for text, _ in model["vocab"])
    texts = [text for text in entries if text not in added and not BYTE_PIECE.fullmatch(text)]
    many, run = (f"{MARK}*", f"{MARK}+") if runs else (f"{MARK}?", MARK)
    for cuts in _CUTS:
        pattern = "|".join([*(many + cut for cut in cuts), r"\n+", run])
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        pieces = [(text, split.pre_tokenize_str(text)) for text in texts]
        across = {(text, at) for text, parts in pieces for _, (at, _) in parts[1:]}
        if len(across) <= len(texts) // _ACROSS:
            return _joined(pattern, across) if across else (pattern, {})
    return "", {}


def _joined(pattern: str, across: Iterable[tuple[str, int]]) -> tuple[str, dict[str, str]]:
    """Join the pieces of ``pattern`` where a token crosses a split: texts and positions.

    Any of the characters before such a split joins any of those after it. A mark is joined only if
    the rest of the token follows, because most splits are before a mark.
    """
    ends = {text[at:] if text[at] == MARK else text[at] for text, at in across}
    left, right = (
        literal("".join(sorted(characters)))
        for characters in ({text[at - 1] for text, at in across}, {e for e in ends if e[0] != MARK})
    )
    joins = {literal(end): end for end in sorted(ends) if end[0] == MARK}
    if right:
        joins[f"[{right}]"] = min(ends - set(joins.values()))
    return f"(?:{pattern})(?:(?<=[{left}])(?={'|'.join(joins)})(?:{pattern}))*", joins


def _marks(normalizer: dict[str, Any] | None) -> bool:
    steps = [step for step in members(normalizer, "normalizers") if step["type"] == "Replace"]
    return any((step["pattern"].get("String"), step["content"]) == (" ", MARK) for step in steps)


def members(part: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    """Return the members of a Sequence in a tokenizer.json, or the single part."""
    if part is None:
        return []
    listed: list[dict[str, Any]] = part.get(name, [part])
    return listed
