"""A vocabulary as a set of byte strings: the longest token of a text, and what may still follow.

Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
Heterogeneous Vocabularies", section 3: T(s) takes the longest prefix of s that is a token, again
and again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

CONTINUE, NOTHING = -1, -2  # outcomes that are no token, see ``Strings.outcomes``
KEPT = 1 << 24  # numbers that a store of rows over a vocabulary holds before it begins again


class Strings:
    """The strings of a vocabulary; ids without one (special tokens, holes) are left out.

    Where two ids have the same string the larger one stands for it: SentencePiece keeps its byte
    tokens, which it uses for nothing that has a piece, in front.
    """

    def __init__(self, strings: Sequence[bytes]) -> None:
        """Take the string of each id, ``b""`` for none."""
        self.of_id = list(strings)
        self.ids = {string: i for i, string in enumerate(strings) if string}
        self.longest = max(map(len, self.ids), default=0)

    @cached_property
    def ordered(self) -> list[bytes]:
        """All strings, sorted as bytes."""
        return sorted(self.ids)

    def extendable(self, string: bytes) -> bool:
        """Say whether some token is longer than ``string`` and begins with it."""
        at = bisect_right(self.ordered, string)
        return at < len(self.ordered) and self.ordered[at].startswith(string)

    def first(self, string: bytes) -> int:
        """Return the longest token that ``string`` begins with, or NOTHING."""
        for length in range(min(self.longest, len(string)), 0, -1):
            found = self.ids.get(string[:length])
            if found is not None:
                return found
        return NOTHING

    def tokenize(self, string: bytes) -> list[int]:
        """Return the tokens of ``string``, longest first; stops where no token fits."""
        tokens: list[int] = []
        at = 0
        while at < len(string):
            token = self.first(string[at : at + self.longest])
            if token == NOTHING:
                break
            tokens.append(token)
            at += len(self.of_id[token])
        return tokens

    def segmentations(self, string: bytes) -> int:
        """Count the sequences of tokens whose strings make up ``string`` (Appendix D)."""
        ways = [1] + [0] * len(string)
        for end in range(1, len(string) + 1):
            for start in range(max(0, end - self.longest), end):
                if ways[start] and string[start:end] in self.ids:
                    ways[end] += ways[start]
        return ways[-1]

    def forwards(self, string: bytes) -> int:
        """Count the draft forwards that ψ of ``string`` takes as Appendix D counts them.

        Those are the beginnings that its segmentations have, the empty one included: the nodes of
        the tree of Figure 1 that are no leaf, and its root.
        """
        size = len(string)
        finishes = [0] * size + [1]
        inner = [0] * (size + 1)  # nodes that are no leaf, of the tree of what stands from here on
        for start in range(size - 1, -1, -1):
            for end in range(start + 1, min(size, start + self.longest) + 1):
                if string[start:end] in self.ids and finishes[end]:
                    finishes[start] = 1
                    inner[start] += inner[end]
            inner[start] += finishes[start]
        return inner[0]


class TokenResolver:
    """What each draft token resolves after a string, by the stopping rule of section 3.3.

    A string is committed once no target token could still be longer: then its first token is the
    longest one it begins with.
    """

    def __init__(self, target: Strings, draft: Sequence[bytes], ends: Mapping[int, int]) -> None:
        """Prepare for the strings of all draft ids, ``b""`` for those without one.

        ``ends`` maps the draft tokens that end a text to the target token that does.
        """
        self.target, self.ends = target, ends
        self.order = sorted(range(len(draft)), key=lambda i: draft[i])
        self.sorted = [draft[i] for i in self.order]
        self.empty = bisect_right(self.sorted, b"")
        self.known: dict[bytes, np.ndarray] = {}

    def after(self, string: bytes) -> np.ndarray:
        """Return (V_D,) int32: the target token that each draft token resolves after ``string``.

        CONTINUE where more must be drawn; NOTHING where no target token fits. A draft token without
        a string ends the text. ``string`` must itself be unsettled.
        """
        found = self.known.get(string)
        if found is None:
            found = np.empty(len(self.order), np.int32)
            committed = np.empty(len(self.order), np.int32)
            last = self.target.first(string)
            committed[: self.empty] = last
            self._fill(committed, self.empty, len(committed), string, 0, last)
            found[self.order] = committed
            if not string:
                found[list(self.ends)] = list(self.ends.values())
            if (len(self.known) + 1) * len(found) > KEPT:
                self.known.clear()
            self.known[string] = found
        return found

    def _fill(
        self, committed: np.ndarray, low: int, high: int, string: bytes, depth: int, last: int
    ) -> None:
        """Fill in the sorted draft tokens [low, high), which agree on ``depth`` bytes.

        ``string`` includes these bytes and is unsettled; ``last`` is the longest token in it.
        """
        target, draft = self.target, self.sorted
        while low < high:
            if len(draft[low]) == depth:
                committed[low] = CONTINUE
                low += 1
                continue
            step = draft[low][: depth + 1]
            above = step[:-1] + bytes([step[-1] + 1]) if step[-1] < 255 else None
            end = high if above is None else bisect_left(draft, above, low, high)
            grown = string + step[-1:]
            token = target.ids.get(grown, last)
            if target.extendable(grown):
                self._fill(committed, low, end, grown, depth + 1, token)
            else:
                committed[low:end] = token
            low = end
