"""The split pattern of the ``pretoken`` export: a trie of n-grams, each guarded by a look-ahead.

The pre-tokenizer tries the trie wherever a pre-token begins. An n-gram may match only where the
base pattern would end a pre-token too; the look-ahead that says so stands at the n-gram's end
inside the trie, so the regular expression backtracks from a longer n-gram that may not stand there
to a shorter one that may.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from tokenizers import Regex, pre_tokenizers

from tasc.tokenizer.token_bytes import MARK

# Classes of a following character, each with texts that begin with one. Contractions ('s, 'll) and
# letter case matter to some base patterns, so they are among the texts.
_SHORT = ("s", "t", "re", "ve", "m", "ll", "d", "S", "LL")
_CLASSES: dict[str, tuple[str, ...]] = {
    r"\p{L}": ("a", "A", "ǅ", "ʰ", "中", *_SHORT),
    r"\p{M}": ("\u0301", "\u0903"),
    r"\p{N}": ("5", "²", "Ⅷ"),
    r"[\r\n]": ("\n", "\r"),
    r"\s": (" ", "\t", "\u00a0", "\u3000"),
    r"'": ("'", *(f"'{tail}" for tail in _SHORT)),
    r"/": ("/",),
    MARK: (MARK,),  # of a space, to the kinds that mark spaces
    rf"[^\s\p{{L}}\p{{M}}\p{{N}}'/{MARK}]": (".", "$", "_", "😀", "\u200d"),
}
_AFTER = ("", "a", "Aa", "1", " ", " a", "  a", "\n", ".", MARK, f"{MARK}a")
_MAX_DEPTH = 100  # of nested groups; beyond it alternatives are listed flat


@dataclass(frozen=True)
class BasePattern:
    """The one regular expression by which a tokenizer splits text."""

    pattern: str
    behavior: str = "isolated"
    invert: bool = False
    _guards: dict[str, str] = field(default_factory=dict)

    def pieces(self, text: str) -> list[str]:
        """The pre-tokens of a text."""
        return [piece for piece, _ in self._split.pre_tokenize_str(text)]

    def guard(self, ngram: str) -> str:
        """A look-ahead under which the base pattern ends a pre-token at the end of the n-gram.

        Found by asking the pattern itself: a class of characters is forbidden if the pattern reads
        on into any text that begins with one. Stricter than need be after white space.
        """
        # Whatever follows cannot change how the pieces before the last one are split, unless the
        # n-gram ends in white space, whose splitting looks ahead.
        context = ngram if ngram[-1].isspace() else self.pieces(ngram)[-1]
        if context not in self._guards:
            self._guards[context] = self._probe(context)
        return self._guards[context]

    def extended(self, ngrams: Iterable[str]) -> str:
        """The pattern with the longest admissible n-gram as its first choice."""
        words = {ngram: self.guard(ngram) for ngram in ngrams}
        return f"{trie(words)}|{self.pattern}" if words else self.pattern

    def _probe(self, context: str) -> str:
        forbidden = [
            name
            for name, starts in _CLASSES.items()
            if not all(self._ends(context, start + after) for start in starts for after in _AFTER)
        ]
        return f"(?!{'|'.join(forbidden)})" if forbidden else ""

    def _ends(self, context: str, following: str) -> bool:
        split = self._split.pre_tokenize_str(context + following)
        return any(begin == len(context) for _, (begin, _) in split)

    @cached_property
    def _split(self) -> pre_tokenizers.Split:
        return pre_tokenizers.Split(Regex(self.pattern), self.behavior, self.invert)


def trie(words: Mapping[str, str], depth: int = 0) -> str:
    """A regular expression for the words (each with its look-ahead), longer ones first."""
    if depth > _MAX_DEPTH:
        flat = sorted(words, key=len, reverse=True)
        return f"(?:{'|'.join(_literal(word) + words[word] for word in flat)})"
    branches = []
    for _, group in groupby(sorted(filter(None, words)), key=lambda word: word[0]):
        members = list(group)
        stem = os.path.commonprefix(members)  # noqa: RUF071 - by characters is meant
        rest = {word[len(stem) :]: words[word] for word in members}
        branches.append(_literal(stem) + trie(rest, depth + 1))
    if "" in words:
        branches.append(words[""])  # the last choice: a longer n-gram wins if it may stand here
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def _literal(text: str) -> str:
    return "".join(
        c if c.isalnum() or ord(c) > 127 else f"\\x{{{ord(c):X}}}"  # no character is special then
        for c in text
    )
