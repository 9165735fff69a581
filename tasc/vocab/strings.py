"""A vocabulary as a set of byte strings: longest-prefix tokens and possible continuations.

Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
Heterogeneous Vocabularies", section 3: T(s) repeatedly takes the longest prefix that is a token.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

CONTINUE, NOTHING = -1, -2  # results that are not tokens: more text is needed, no token fits
KEPT = 1 << 24  # elements that a cache of rows over a vocabulary holds before it is cleared


class Strings:
    """The strings of a vocabulary, without ids that have none (special tokens, holes).

    If two ids have the same string, the larger one counts: SentencePiece lists its byte tokens
    first, and does not use them for characters that have a piece.
    """

    def __init__(self, strings: Sequence[bytes]) -> None:
        """``strings`` has the string of each id, ``b""`` for none."""
        self.of_id = list(strings)
        self.ids = {string: i for i, string in enumerate(strings) if string}
        self.longest = max(map(len, self.ids), default=0)

    @cached_property
    def ordered(self) -> list[bytes]:
        return sorted(self.ids)

    def extendable(self, string: bytes) -> bool:
        """Return whether some token is longer than ``string`` and starts with it."""
        at = bisect_right(self.ordered, string)
        return at < len(self.ordered) and self.ordered[at].startswith(string)

    def first(self, string: bytes) -> int:
        """Return the longest token that is a prefix of ``string``, or NOTHING."""
        for length in range(min(self.longest, len(string)), 0, -1):
            token = self.ids.get(string[:length])
            if token is not None:
                return token
        return NOTHING

    def tokenize(self, string: bytes) -> list[int]:
        """Return the tokens of ``string`` by longest prefix, up to where no token fits."""
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
        """Count the sequences of tokens that spell ``string`` (Appendix D)."""
        ways = [1] + [0] * len(string)
        for end in range(1, len(string) + 1):
            for start in range(max(0, end - self.longest), end):
                if ways[start] and string[start:end] in self.ids:
                    ways[end] += ways[start]
        return ways[-1]

    def forwards(self, string: bytes) -> int:
        """Count the draft forwards for ψ of ``string`` (Appendix D).

        Each distinct proper prefix of its segmentations, including the empty one, takes a forward:
        these are the inner nodes of the tree of Figure 1.
        """
        size = len(string)
        finishes = [0] * size + [1]
        inner = [0] * (size + 1)  # inner nodes of the tree of each suffix
        for start in range(size - 1, -1, -1):
            for end in range(start + 1, min(size, start + self.longest) + 1):
                if string[start:end] in self.ids and finishes[end]:
                    finishes[start] = 1
                    inner[start] += inner[end]
            inner[start] += finishes[start]
        return inner[0]


class TokenResolver:
    """The target token that each draft token resolves to after a string (stopping rule, 3.3).

    A string is committed once no target token could still be longer: its first token is then its
    longest prefix that is a token.
    """

    def __init__(self, target: Strings, draft: Sequence[bytes], ends: Mapping[int, int]) -> None:
        """``draft`` has the string of each draft id, ``b""`` for none.

        ``ends`` maps the draft's end tokens to the target's end token.
        """
        self.target, self.ends = target, ends
        self.order = sorted(range(len(draft)), key=lambda i: draft[i])
        self.sorted = [draft[i] for i in self.order]
        self.empty = bisect_right(self.sorted, b"")
        self.known: dict[bytes, np.ndarray] = {}

    def after(self, string: bytes) -> np.ndarray:
        """Return the target token that each draft token resolves to after ``string``, (V_D,) int32.

        CONTINUE if more tokens must be drawn; NOTHING if no target token fits. A draft token
        without a string ends the text. ``string`` itself must not be committed yet.
        """
        resolved = self.known.get(string)
        if resolved is None:
            resolved = np.empty(len(self.order), np.int32)
            committed = np.empty(len(self.order), np.int32)
            last = self.target.first(string)
            committed[: self.empty] = last
            self._fill(committed, self.empty, len(committed), string, 0, last)
            resolved[self.order] = committed
            if not string:
                resolved[list(self.ends)] = list(self.ends.values())
            if (len(self.known) + 1) * len(resolved) > KEPT:
                self.known.clear()
            self.known[string] = resolved
        return resolved

    def _fill(
        self, committed: np.ndarray, low: int, high: int, string: bytes, depth: int, last: int
    ) -> None:
        """Fill in the sorted draft tokens [low, high), which share their first ``depth`` bytes.

        ``string`` includes these bytes and is not committed; ``last`` is its longest prefix token.
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
