"""Rules that end an output, besides end tokens and the token limit."""

from collections.abc import Callable, Sequence
from typing import Protocol

from tasc.errors import InputError

_SLACK = 4  # characters by which the decoding of a window's first token may differ


class Stop(Protocol):
    """A rule that may end an output after any of its tokens. One object serves one sequence."""

    def cut(self, tokens: list[int], new: int) -> int | None:
        """Return the number of ``tokens`` to keep, or None to continue.

        ``tokens`` are the output so far, of which the last ``new`` >= 1 are new. So the result lies
        in len(tokens) - new + 1 .. len(tokens).
        """


class StopStrings:
    """Ends an output with the token that completes one of ``strings``.

    ``decode`` turns ids into text. A string may span tokens and lie anywhere in them.
    """

    def __init__(self, strings: Sequence[str], decode: Callable[[list[int]], str]) -> None:
        """Raise InputError for no strings, or an empty one."""
        if isinstance(strings, str) or not strings or not all(strings):
            raise InputError(f"stop strings must be a list of non-empty texts, got {strings!r}")
        self.strings, self.decode = tuple(strings), decode
        self.longest = max(map(len, self.strings))

    def cut(self, tokens: list[int], new: int) -> int | None:
        known = len(tokens) - new
        begin = self._window(tokens, known)
        if not self._matches(tokens[begin:]):
            return None
        ends = range(known + 1, len(tokens))
        return next((end for end in ends if self._matches(tokens[begin:end])), len(tokens))

    def text(self, tokens: list[int]) -> str:
        """Return the text of ``tokens`` before the first stop string."""
        text = self.decode(tokens)
        return text[: min((i for s in self.strings if (i := text.find(s)) >= 0), default=None)]

    def _matches(self, tokens: list[int]) -> bool:
        text = self.decode(tokens)
        return any(s in text for s in self.strings)

    def _window(self, tokens: list[int], known: int) -> int:
        """Return the first token to decode to find a string that ends after token ``known``."""
        size = 16
        while size < known:
            if len(self.decode(tokens[known - size : known])) >= self.longest + _SLACK:
                return known - size
            size *= 2
        return 0
