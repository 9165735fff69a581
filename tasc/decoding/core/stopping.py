"""Where an output ends besides end tokens and the limit: strings, or any rule."""

from collections.abc import Callable, Sequence
from typing import Protocol

from tasc.errors import InputError

Decode = Callable[[list[int]], str]

_SLACK = 4  # characters that the first token of a window may be decoded to differently


class Stop(Protocol):
    """A rule that may end an output after any of its tokens. One object serves one sequence."""

    def cut(self, tokens: list[int], new: int) -> int | None:
        """Return how many ``tokens`` to keep, or None to go on.

        ``tokens`` are the output so far; the last ``new`` >= 1 of them are seen for the first time,
        so the result lies in len(tokens) - new + 1 .. len(tokens).
        """


class StopStrings:
    """Ends an output with the token that completes one of ``strings``.

    ``decode`` turns ids into text. A string may span tokens and lie anywhere in them.
    """

    def __init__(self, strings: Sequence[str], decode: Decode) -> None:
        """Raise InputError when there is no string to look for, or an empty one."""
        if isinstance(strings, str) or not strings or not all(strings):
            raise InputError(
                f"stop strings must be a list of texts that are not empty, got {strings!r}"
            )
        self.strings, self.decode = tuple(strings), decode
        self.longest = max(map(len, self.strings))

    def cut(self, tokens: list[int], new: int) -> int | None:
        """See Stop."""
        known = len(tokens) - new
        begin = self._window(tokens, known)
        if not self._found(tokens[begin:]):
            return None
        for end in range(known + 1, len(tokens)):
            if self._found(tokens[begin:end]):
                return end
        return len(tokens)

    def text(self, tokens: list[int]) -> str:
        """Return the text of ``tokens`` up to the first stop string, which is left out."""
        text = self.decode(tokens)
        return text[: min((i for s in self.strings if (i := text.find(s)) >= 0), default=None)]

    def _found(self, tokens: list[int]) -> bool:
        text = self.decode(tokens)
        return any(s in text for s in self.strings)

    def _window(self, tokens: list[int], known: int) -> int:
        """Return where to begin decoding so that a string that ends behind ``known`` is seen."""
        size = 16
        while size < known:
            if len(self.decode(tokens[known - size : known])) >= self.longest + _SLACK:
                return known - size
            size *= 2
        return 0
