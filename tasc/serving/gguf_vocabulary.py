"""A tokenizer in llama.cpp's terms: entries, types, merges with a pre-tokenizer, or with scores.

llama.cpp implements pre-tokenizers in code and ignores the split pattern with the new tokens. New
tokens that merges cannot produce are therefore either "user defined", which llama.cpp splits off
first, the longest first, wherever they occur; or normal entries, which it generates but never
encodes. Generation is exact in both cases.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

from tokenizers import Tokenizer, models, normalizers

from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.patterns import PRE_TOKENIZERS, WHOLE, byte_level
from tasc.tokenizer.token_bytes import BYTE_PIECE, MARK
from tasc.vocab.exports.sequence import one_pattern, same_pieces

NORMAL, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 3, 4, 5, 6  # llama.cpp's token types
SENTENCEPIECE = "sentencepiece"  # instead of a pre-tokenizer
# Texts of tokens that llama.cpp makes control tokens, at which it ends outputs
BY_TEXT = {
    *("</s>", "<eos>", "[EOS]", "<EOT>", "_<EOT>", "[EOT]", "<turn|>", "<|end|>", "<|return|>"),
    *("<|call|>", "<|calls|>", "<|flush|>", "<|eot_id|>", "<|eom_id|>", "<|im_end|>"),
    *("<|endoftext|>", "<|end_of_text|>", "<end_of_turn>", "<end_of_utterance>"),
    *("<|tool_response>", "<｜end▁of▁sentence｜>"),
}


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer in llama.cpp's terms."""

    tokens: list[str]  # text of each id; the tokenizer's own entries for normal ones
    types: list[int]  # by id
    merges: list[str]  # "left right"
    pre: str  # name of the pre-tokenizer, or SENTENCEPIECE
    adds_space: bool = False  # before a text, in SentencePiece

    def encode(self, text: str) -> list[int]:
        """Encode a text like llama.cpp, without special tokens around it."""
        parts: list[str | int] = [text]
        for token, content in self._split_first:
            if content in text:
                parts = [piece for part in parts for piece in _cut(part, content, token)]
        encode = partial(self._plain.encode, add_special_tokens=False)
        ids: list[int] = []
        for part in parts:
            ids += [part] if isinstance(part, int) else encode(part).ids
        return ids

    @property
    def scores(self) -> list[float]:
        """Scores by id: SentencePiece merges the pair whose token has the highest."""
        ranks = {merge.replace(" ", ""): -i for i, merge in reversed([*enumerate(self.merges)])}
        return [float(ranks.get(token, -len(ranks))) for token in self.tokens]

    @cached_property
    def _split_first(self) -> list[tuple[int, str]]:
        """Tokens that are split off before BPE, the longest first."""
        tokens = [i for i, kind in enumerate(self.types) if kind in (CONTROL, USER_DEFINED)]
        tokens.sort(key=lambda i: -len(self.tokens[i].encode()))
        return [(i, self.tokens[i]) for i in tokens]

    @cached_property
    def _plain(self) -> Tokenizer:
        """Tokenizer of the text between these tokens."""
        entries = {token: i for i, token in enumerate(self.tokens)}
        merges = [(left, right) for left, _, right in (m.partition(" ") for m in self.merges)]
        if self.pre == SENTENCEPIECE:
            tokenizer = Tokenizer(models.BPE(entries, merges, byte_fallback=True))
            first = [normalizers.Prepend(MARK)] if self.adds_space else []
            tokenizer.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", MARK)])
            return tokenizer
        tokenizer = Tokenizer(models.BPE(entries, merges, ignore_merges=self.pre in WHOLE))
        tokenizer.pre_tokenizer = byte_level(*PRE_TOKENIZERS[self.pre])
        return tokenizer


def vocabulary(
    tokenizer: LoadedTokenizer, size: int, ends: Collection[int] = (), *, user_defined: bool
) -> Vocabulary:
    """Return the vocabulary for a model of ``size`` embeddings.

    With ``user_defined``, new tokens that merges cannot produce get that type. Special tokens get
    it, too, as llama.cpp leaves control tokens out of an output's text; but ``ends``, which end
    outputs, are control tokens. Raises InputError unless it is SentencePiece's BPE with byte
    fallback, or byte-level BPE that llama.cpp can split.
    """
    state = json.loads(tokenizer.tokenizer.to_str())
    model = state["model"]
    pieces = "".join(tokenizer.tokenizer.encode("a b", add_special_tokens=False).tokens)
    marked = model["type"] == "BPE" and bool(model.get("byte_fallback")) and MARK in pieces
    pre = SENTENCEPIECE if marked else _pre_tokenizer(state, tokenizer.path)
    pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    strings = tokenizer.vocabulary()
    vocab = model["vocab"]
    if len(strings) > size:
        raise InputError(
            f"{tokenizer.path}: {len(strings)} tokens for a model of {size} embeddings: export the "
            "model with its own tokenizer"
        )
    tokens = [f"[PAD{i}]" for i in range(size)]
    types = [UNUSED] * size
    merged = {left + right for left, right in pairs}
    for entry, token in vocab.items():
        text = strings[token].decode(errors="replace")
        spelt = len(entry) > 1 and entry not in merged and not marked and "\ufffd" not in text
        # Not a bare word: llama.cpp would find it inside longer words, and after a space.
        if user_defined and spelt and not text.isalpha():
            tokens[token] = text
            types[token] = USER_DEFINED
        else:
            is_byte = marked and BYTE_PIECE.fullmatch(entry)
            tokens[token] = entry
            types[token] = BYTE if is_byte else NORMAL
    for added in state["added_tokens"]:
        # llama.cpp leaves control tokens out of an output's text.
        names = BY_TEXT | {model.get("unk_token")}
        hidden = added["id"] in ends or added["content"] in names
        kind = CONTROL if added["special"] and hidden else USER_DEFINED
        tokens[added["id"]] = added["content"]
        types[added["id"]] = kind
    if marked:  # llama.cpp merges any two tokens whose text together is a token
        unmade = sorted(vocab.keys() - merged, key=vocab.__getitem__)
        halves = ((entry[:i], entry[i:]) for entry in unmade for i in range(1, len(entry)))
        pairs += [pair for pair in halves if vocab.keys() >= {*pair}]
    merges = [f"{left} {right}" for left, right in pairs]
    return Vocabulary(tokens, types, merges, pre, marked and pieces.startswith(MARK))


def differences(
    vocabulary: Vocabulary, tokenizer: LoadedTokenizer, texts: Sequence[str]
) -> dict[str, int]:
    """Count the texts that llama.cpp encodes differently from the tokenizer."""
    pairs = zip(texts, tokenizer.encode(texts).split(), strict=True)
    differ = sum(vocabulary.encode(text) != ids.tolist() for text, ids in pairs)
    return {"texts": len(texts), "differ": differ}


def _cut(part: str | int, content: str, token: int) -> list[str | int]:
    if isinstance(part, int) or content not in part:
        return [part]
    pieces: list[str | int] = []
    for piece in part.split(content):
        pieces += [token, piece] if pieces else [piece]
    return [piece for piece in pieces if piece != ""]


def _pre_tokenizer(state: dict[str, Any], path: str) -> str:
    """Return llama.cpp's name for the pre-tokenizer of a tokenizer.json."""
    split = state["pre_tokenizer"] or {"type": "none"}
    parts = split.get("pretokenizers", [split])
    names: list[str] = []
    if state["model"]["type"] == "BPE" and parts[-1]["type"] == "ByteLevel":
        expressions = {name: _one(patterns) for name, patterns in PRE_TOKENIZERS.items()}
        names = [
            name for name, pattern in expressions.items() if pattern and _alike(pattern, parts)
        ]
    if not names:
        raise InputError(
            f"{path}: llama.cpp lacks this tokenizer's pre-tokenizer; tasc knows byte-level BPE "
            f"with the patterns of {', '.join(PRE_TOKENIZERS)}, and "
            "SentencePiece's BPE with byte fallback: choose another engine"
        )
    whole = bool(state["model"].get("ignore_merges"))
    return next((name for name in names if (name in WHOLE) == whole), names[0])


def _alike(pattern: str, parts: list[dict[str, Any]]) -> bool:
    """Return whether ``parts``, with new n-grams before them, split text like ``pattern``."""
    if parts[-1].get("add_prefix_space"):
        return False
    regex = parts[0].get("pattern", {}).get("Regex", "") if len(parts) == 2 else ""
    return regex == pattern or regex.endswith(f"|{pattern}") or same_pieces(pattern, parts)


@cache
def _one(patterns: tuple[str, ...]) -> str | None:
    """Return the one pattern that splits text as several do after each other, if it is known."""
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "use_regex": False, "add_prefix_space": False}
    level["trim_offsets"] = True
    return one_pattern([*(split | {"pattern": {"Regex": p}} for p in patterns), level])
