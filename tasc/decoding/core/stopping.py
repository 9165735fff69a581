"""Rules that end an output, besides end tokens and the token limit."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Protocol

import numpy as np

from tasc.errors import InputError
from tasc.tokenizer.output_text import OutputText
from tasc.visible import is_unicode


class Stop(Protocol):
    """A rule that may end an output after any of its tokens. One object serves one sequence."""

    def cut(self, tokens: list[int], new: int) -> int | None:
        """Return the number of ``tokens`` to keep, or None to continue.

        ``tokens`` are the output so far, of which the last ``new`` >= 1 are new. So the result lies
        in len(tokens) - new + 1 .. len(tokens).
        """


class StopStrings:
    """Ends an output with the token that completes one of ``strings``, as in transformers.

    ``stop_strings`` of transformers' ``generate`` looks for a string in the bytes of the tokens,
    special tokens included. It may begin in the prompt, span tokens, and end inside a token.
    """

    def __init__(
        self,
        strings: Sequence[str],
        spell: Callable[[int], bytes],
        prompt: Sequence[int] | np.ndarray = (),
    ) -> None:
        """Take the function that returns a token's bytes.

        Raises InputError for a string that is empty or no Unicode.
        """
        if isinstance(strings, str) or not strings or not all(strings):
            raise InputError(f"stop strings must be a list of non-empty texts, got {strings!r}")
        for string in strings:
            if not is_unicode(string):
                raise InputError(f"stop string {string!r} has half of a surrogate pair: remove it")
        self.strings = [string.encode() for string in strings]
        self.spell, self.prompt = spell, [int(token) for token in prompt]
        self.longest = max(map(len, self.strings))

    def cut(self, tokens: list[int], new: int) -> int | None:
        old = len(tokens) - new
        before = self._tail(tokens, old)
        for i in range(old, len(tokens)):
            last = self.spell(tokens[i])
            if any(self._matches(before, last)):
                return i + 1
            before = (before + last)[-self.longest :]
        return None

    def text(self, tokens: list[int], text: OutputText) -> str:
        """Return the text of ``tokens`` before the stop string that their last token completes."""
        last = self.spell(tokens[-1]) if tokens else b""
        match = max(self._matches(self._tail(tokens, len(tokens) - 1), last), default=None)
        if match is None:
            return text(tokens)
        from_end, string = match
        # With the end token, which may complete the string.
        before, is_in_text, _ = text.decode(list(tokens)).partition(string.decode())
        lengths = [len(self.spell(token)) for token in tokens]
        length = sum(lengths) - from_end
        if length <= 0:  # the string begins in the prompt
            return ""
        if is_in_text:
            return before
        whole = 0  # tokens before the string, which is in a run of byte tokens that is no text
        while lengths[whole] <= length:
            length -= lengths[whole]
            whole += 1
        part = self.spell(tokens[whole])[:length]
        return text.decode(tokens[:whole]) + part.decode(errors="replace")

    def _matches(self, before: bytes, last: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the strings that end in the token ``last``, each after its distance from the end.

        ``before`` are the bytes in front of the token in which a string may begin.
        """
        around = before + last
        for string in self.strings:
            # A match that ends within ``before`` belongs to an earlier token.
            at = around.find(string, max(len(before) - len(string) + 1, 0))
            if at >= 0:
                yield len(around) - at, string

    def _tail(self, tokens: list[int], count: int) -> bytes:
        """Return the last bytes of the prompt and ``count`` tokens in which a string may begin."""
        parts, size = list[bytes](), 0
        backwards = (tokens[i] for i in range(count - 1, -1, -1))
        for token in chain(backwards, reversed(self.prompt)):
            if size >= self.longest - 1:
                break
            parts.append(self.spell(token))
            size += len(parts[-1])
        return b"".join(reversed(parts))
