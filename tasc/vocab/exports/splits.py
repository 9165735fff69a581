"""How the base tokenizer splits text into pre-tokens, and how its vocabulary spells them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tasc.errors import InputError
from tasc.tokenizer.patterns import GPT2
from tasc.tokenizer.token_bytes import MARK, spell_bytes
from tasc.tokenizer.word_boundaries import splitting
from tasc.vocab.exports.pattern import BasePattern
from tasc.vocab.exports.sequence import one_pattern

_SPLITS = {("isolated", False), ("removed", True)}  # ways to keep every character


@dataclass(frozen=True)
class Splits:
    """The pre-tokens of a tokenizer, as its pattern sees them."""

    base: BasePattern
    spell: Callable[[bytes], str]  # string -> entry of the vocabulary
    seen: Callable[[str], str]  # text -> what the pattern sees of it
    described: Callable[[str], dict[str, Any]]  # pattern -> pre-tokenizer of tokenizer.json

    def several(self, text: str) -> bool:
        """Whether the text is ever more than one pre-token; white space looks ahead."""
        seen = self.seen(text)
        return seen[-1].isspace() or len(self.base.pieces(seen)) > 1

    def extended(self, ngrams: Iterable[str]) -> dict[str, Any]:
        """The pre-tokenizer whose pattern tries the n-grams first."""
        return self.described(self.base.extended(map(self.seen, ngrams)))


def splits_of(state: dict[str, Any], path: str) -> Splits:
    """Find how the tokenizer of this tokenizer.json splits; InputError where that cannot be."""
    model, split = state["model"], state["pre_tokenizer"] or {"type": "none"}
    parts = split.get("pretokenizers", [split])
    kinds = [part["type"] for part in parts]
    found = None
    if not (model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")):
        found = _byte_level(model, parts) if kinds[-1] == "ByteLevel" else _marked(state)
    if found is None:
        raise InputError(
            f"{path}: the pretoken export needs byte-level BPE split by one pattern, or BPE or "
            "Unigram that write spaces as ▁ and have no token across words, this is "
            f"{model['type']} split by {' + '.join(kinds)}: use --export added"
        )
    return found


def _byte_level(model: dict[str, Any], parts: list[dict[str, Any]]) -> Splits | None:
    level = parts[-1]
    if model["type"] != "BPE" or level.get("add_prefix_space", True):
        return None
    base = _pattern(parts)
    if base is None:
        return None

    def described(pattern: str) -> dict[str, Any]:
        split = {
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": base.behavior.capitalize(),
            "invert": base.invert,
        }
        return {"type": "Sequence", "pretokenizers": [split, level | {"use_regex": False}]}

    return Splits(base, spell_bytes, str, described)


def _pattern(parts: list[dict[str, Any]]) -> BasePattern | None:
    """Return the one pattern of a pre-tokenizer whose last part is byte level."""
    first = parts[0]
    if len(parts) == 2 and first["type"] == "Split" and not parts[1]["use_regex"]:
        pattern = first["pattern"].get("Regex")
        way = (first["behavior"].lower(), first["invert"])
        return BasePattern(pattern, *way) if pattern and way in _SPLITS else None
    single = GPT2 if len(parts) == 1 and first["use_regex"] else one_pattern(parts)
    return BasePattern(single) if single else None


def _marked(state: dict[str, Any]) -> Splits | None:
    found = splitting(state)
    if found is None:
        return None

    def seen(text: str) -> str:
        return text.replace(" ", MARK)

    def spell(string: bytes) -> str:
        return seen(string.decode(errors="surrogateescape"))  # a part of a character has no entry

    return Splits(BasePattern(found.pattern), spell, seen, found.described)
