"""The split pattern of the ``pretoken`` export: a trie of n-grams, each guarded by a look-ahead.

The pre-tokenizer tries the trie at the start of each pre-token. An n-gram may match only if the
base pattern also ends a pre-token at its end. The look-ahead for this is at the end of the n-gram
inside the trie, so the regular expression falls back from a longer n-gram to a shorter one.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from tokenizers import Regex, pre_tokenizers

from tasc.tokenizer.token_bytes import MARK, literal

# Classes of the following character, each with texts that start with it. Contractions ('s, 'll) and
# letter case matter to some base patterns.
_SHORT = ("s", "t", "re", "ve", "m", "ll", "d", "S", "LL")
_CLASSES: dict[str, tuple[str, ...]] = {
    r"\p{L}": ("a", "A", "ǅ", "ʰ", "中", *_SHORT),
    r"\p{M}": ("\u0301", "\u0903"),
    r"\p{N}": ("5", "²", "Ⅷ"),
    r"[\r\n]": ("\n", "\r"),
    r"\s": (" ", "\t", "\u00a0", "\u3000"),
    r"'": ("'", *(f"'{tail}" for tail in _SHORT)),
    r"/": ("/",),
    MARK: (MARK,),  # a space, in tokenizers that mark spaces
    rf"[^\s\p{{L}}\p{{M}}\p{{N}}'/{MARK}]": (".", "$", "_", "😀", "\u200d"),
}
_AFTER = ("", "a", "Aa", "1", " ", " a", "  a", "\n", ".", MARK, f"{MARK}a")
_MAX_DEPTH = 100  # of nested groups; beyond it alternatives are listed flat


@dataclass(frozen=True)
class BasePattern:
    """The regular expression by which a tokenizer splits text into pre-tokens."""

    pattern: str
    behavior: str = "isolated"
    invert: bool = False
    joins: Mapping[str, str] = field(default_factory=dict)  # look-aheads: see ``Splitting``
    _guards: dict[str, str] = field(default_factory=dict)

    def pieces(self, text: str) -> list[str]:
        return [piece for piece, _ in self._split.pre_tokenize_str(text)]

    def guard(self, ngram: str) -> str:
        """Return a look-ahead under which the base pattern ends a pre-token after the n-gram.

        The pattern itself is probed: a class of characters is forbidden if the last pre-token
        continues into any text that starts with it. After white space this is stricter than needed.
        """
        # The following text cannot change the pieces before the last one, unless the n-gram ends in
        # white space, where patterns look ahead.
        context = ngram if ngram[-1].isspace() else self.pieces(ngram)[-1]
        if context not in self._guards:
            classes = _CLASSES | {name: (start,) for name, start in self.joins.items()}
            forbidden = [
                name
                for name, starts in classes.items()
                if not all(self._ends(context, s + after) for s in starts for after in _AFTER)
            ]
            self._guards[context] = f"(?!{'|'.join(forbidden)})" if forbidden else ""
        return self._guards[context]

    def extended(self, ngrams: Iterable[str]) -> str:
        """Return the pattern with the longest admissible n-gram as its first choice."""
        words = {ngram: self.guard(ngram) for ngram in ngrams}
        return f"{trie(words)}|{self.pattern}" if words else self.pattern

    def _ends(self, context: str, following: str) -> bool:
        split = self._split.pre_tokenize_str(context + following)
        return any(begin == len(context) for _, (begin, _) in split)

    @cached_property
    def _split(self) -> pre_tokenizers.Split:
        return pre_tokenizers.Split(Regex(self.pattern), self.behavior, self.invert)


def trie(words: Mapping[str, str], depth: int = 0) -> str:
    """Return a regular expression for the words, each with its look-ahead, longer ones first."""
    if depth > _MAX_DEPTH:
        flat = sorted(words, key=len, reverse=True)
        return f"(?:{'|'.join(literal(word) + words[word] for word in flat)})"
    branches = []
    for _, group in groupby(sorted(filter(None, words)), key=lambda word: word[0]):
        members = list(group)
        stem = os.path.commonprefix(members)  # noqa: RUF071 - by characters, not folders
        rest = {word[len(stem) :]: words[word] for word in members}
        branches.append(literal(stem) + trie(rest, depth + 1))
    if "" in words:
        branches.append(words[""])  # the last choice: a longer n-gram wins if it matches
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
