"""The pre-tokens of a base tokenizer, and their spelling in its vocabulary."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tasc.errors import InputError
from tasc.tokenizer.patterns import GPT2
from tasc.tokenizer.token_bytes import MARK, spell_bytes
from tasc.tokenizer.word_boundaries import splitting
from tasc.vocab.exports.pattern import BasePattern
from tasc.vocab.exports.sequence import one_pattern, pre_tokenizer_of

_SPLITS = {("isolated", False), ("removed", True)}  # these keep every character


@dataclass(frozen=True)
class Splits:
    """The pre-tokens of a tokenizer."""

    base: BasePattern
    spell: Callable[[bytes], str]  # string -> entry of the vocabulary
    normalize: Callable[[str], str]  # text -> text as the pattern receives it
    pre_tokenizer: Callable[[str], dict[str, Any]]  # pattern -> its part of tokenizer.json
    whole: Callable[[str], bool] = lambda _: True  # whether later pre-tokenizers do not split it

    def several(self, text: str) -> bool:
        """Return whether the pattern must match the text to make it one pre-token.

        That is if it can be more than one: white space looks ahead.
        """
        text = self.normalize(text)
        return text[-1].isspace() or len(self.base.pieces(text)) > 1

    def extended(self, ngrams: Iterable[str]) -> dict[str, Any]:
        """Return the pre-tokenizer whose pattern tries the n-grams first."""
        return self.pre_tokenizer(self.base.extended(map(self.normalize, ngrams)))


def splits_of(state: dict[str, Any], path: str) -> Splits:
    """Return the pre-tokens of the tokenizer of this tokenizer.json.

    Raises InputError if the ``pretoken`` export does not support the tokenizer.
    """
    model, split = state["model"], state["pre_tokenizer"] or {"type": "none"}
    parts = split.get("pretokenizers", [split])
    kinds = [part["type"] for part in parts]
    splits = None
    if not (model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")):
        splits = _byte_level(model, parts) if "ByteLevel" in kinds else _marked(state)
    if splits is None:
        raise InputError(
            f"{path}: the pretoken export does not support {model['type']} split by "
            f"{' + '.join(kinds)}; it supports byte-level BPE split by one pattern or by classes "
            "of characters and a pattern, and BPE or Unigram that write spaces as ▁ and have no "
            "token across words: use --export added, or no new tokens if that is refused too"
        )
    return splits


def _byte_level(model: dict[str, Any], parts: list[dict[str, Any]]) -> Splits | None:
    at = [part["type"] for part in parts].index("ByteLevel")
    level = parts[at]
    later = parts[at + 1 :]  # Falcon splits digits later, also within characters
    if model["type"] != "BPE" or level.get("add_prefix_space", True):
        return None
    base = _pattern(parts[: at + 1])
    if base is None or any(part["type"] not in {"Digits", "Split"} for part in later):
        return None
    after = [level | {"use_regex": False}, *later]
    splits = Splits(base, spell_bytes, str, partial(_described, base, after))
    if not later:
        return splits
    pre_tokenizer = pre_tokenizer_of(after)
    return replace(splits, whole=lambda text: len(pre_tokenizer.pre_tokenize_str(text)) == 1)


def _described(base: BasePattern, after: list[dict[str, Any]], pattern: str) -> dict[str, Any]:
    way = {"behavior": base.behavior.capitalize(), "invert": base.invert}
    split = {"type": "Split", "pattern": {"Regex": pattern}, **way}
    return {"type": "Sequence", "pretokenizers": [split, *after]}


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
    marked = splitting(state)
    if marked is None:
        return None

    def normalize(text: str) -> str:
        return text.replace(" ", MARK)

    def spell(string: bytes) -> str:
        return normalize(string.decode(errors="surrogateescape"))  # part of a character: no entry

    base = BasePattern(marked.pattern, joins=marked.joins)
    return Splits(base, spell, normalize, marked.described)
