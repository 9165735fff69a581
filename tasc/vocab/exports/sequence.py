"""One regular expression for a sequence of pre-tokenizers, such as digits and then byte level.

Each pre-tokenizer of a sequence splits the pieces of the one before it. If the earlier ones cut out
runs of one class of characters (digits, CJK), the last pattern only ever sees text without that
class. So the equivalent single pattern is: a run of the class, or the last pattern with every atom
restricted to characters outside the class. The restriction also holds inside look-aheads, because
the last pattern treats the border of its piece as the end of the text.
"""

import json
import random
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from tasc.tokenizer.patterns import GPT2
from tasc.tokenizer.token_bytes import spell_bytes

_ATOM = (
    r"\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\[^bBAzZGK]|\[(?:\\.|\[[^\]]*\]|[^\]\\])*\]|[^\\()|*+?{}^$\[\]]"
)
_TOKEN = re.compile(
    rf"(?P<open>\((?:\?(?:[:=!>]|<[=!]|i:))?)|(?P<atom>{_ATOM})|(?P<other>[)|]|[*+?]+|\{{[\d,]+\}})"
)
_RUN = re.compile(rf"(?P<atom>{_ATOM})(?:\+|\{{1,\d+\}})?")
_PUNCTUATION = r"[\p{P}$+<=>^`|~]"
_TEXTS = 1000
_SAMPLES = [
    *("a", "Bc", "the", "é", "ǅ", "ʰ", "e\u0301", "中", "日本", "かな"),
    *("ر", "\u200d", "\ue000", "🙂"),
    *("1", "22", "345", "6789", "²", "Ⅷ", "٣", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000"),
    *(".", "...", "!?", "'", "'s", "'LL", "-", "_", "$", "{", "/", "。", "„", "“", "+"),
]


def one_pattern(steps: Sequence[dict[str, Any]]) -> str | None:
    """Return a pattern that splits text as ``steps`` do, or None if no equivalent one is known.

    ``steps`` are the pre-tokenizers of a tokenizer.json's sequence, the last of them byte level.
    """
    patterns = [_pattern(step) for step in steps]
    if patterns[-1] is None:  # a ByteLevel without a pattern of its own: all others come before it
        patterns.pop()
    if not patterns or None in patterns:
        return None
    *earlier, pattern = [pattern for pattern in patterns if pattern]
    for run in reversed(earlier):
        single = _RUN.fullmatch(run)
        restricted = single and _without(pattern, single["atom"])
        if not restricted:
            return None
        pattern = f"{run}|{restricted}"
    if pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(_every_character()):
        # Some characters match neither alone nor before others.
        pattern = rf"{pattern}|(?:(?!{pattern})[\s\S])+"
    return pattern if same_pieces(pattern, steps) else None


def _pattern(step: dict[str, Any]) -> str | None:
    match step["type"]:
        case "ByteLevel":
            return GPT2 if step["use_regex"] else None
        case "Digits":
            return r"\p{N}" if step["individual_digits"] else r"\p{N}+"
        case "Punctuation" if step["behavior"] in ("Isolated", "Contiguous"):
            return _PUNCTUATION + ("+" if step["behavior"] == "Contiguous" else "")
        case "Split" if step["behavior"] == "Isolated" and not step["invert"]:
            pattern: str | None = step["pattern"].get("Regex")
            return pattern
    return None


def _without(pattern: str, excluded: str) -> str | None:
    """Restrict each atom of ``pattern`` to characters outside the class ``excluded``."""
    restricted, end = [], 0
    for token in _TOKEN.finditer(pattern):
        if token.start() != end:
            return None
        end = token.end()
        atom = token["atom"]
        overlaps = atom and _overlap(atom, excluded)
        restricted.append(f"(?:(?!{excluded}){atom})" if overlaps else token[0])
    return "".join(restricted) if end == len(pattern) else None


def _overlap(atom: str, excluded: str) -> bool:
    members = _members(excluded)
    outside = pre_tokenizers.Split(Regex(f"{atom}+"), "removed").pre_tokenize_str(members)
    return len("".join(piece for piece, _ in outside)) < len(members)


@cache
def _members(atom: str) -> str:
    inside = pre_tokenizers.Split(Regex(f"{atom}+"), "removed", invert=True)
    return "".join(piece for piece, _ in inside.pre_tokenize_str(_every_character()))


def pre_tokenizer_of(steps: Sequence[dict[str, Any]]) -> pre_tokenizers.PreTokenizer:
    """Return the pre-tokenizer that a tokenizer.json describes by these steps."""
    state = json.loads(Tokenizer(models.BPE()).to_str())
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": list(steps)}
    described: pre_tokenizers.PreTokenizer = Tokenizer.from_str(json.dumps(state)).pre_tokenizer
    return described


def same_pieces(pattern: str, steps: Sequence[dict[str, Any]]) -> bool:
    """Compare ``pattern`` with the pre-tokenizers themselves on random mixtures of characters."""
    sequence = pre_tokenizer_of(steps)
    single = pre_tokenizers.Split(Regex(pattern), "isolated")
    rng = random.Random(0)
    texts = ["".join(rng.choices(_SAMPLES, k=8)) for _ in range(_TEXTS)]
    return all(
        [spell_bytes(piece.encode()) for piece, _ in single.pre_tokenize_str(text)]
        == [piece for piece, _ in sequence.pre_tokenize_str(text)]
        for text in texts
    )


@cache
def _every_character() -> str:
    """Return all characters up to the last plane with assigned letters, in order."""
    return "".join(chr(code) for code in range(0x32400) if not 0xD800 <= code < 0xE000)
