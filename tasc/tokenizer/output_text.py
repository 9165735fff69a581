"""The text of an output: the one place that decides how the ids of an output become text.

A special token inside an output, such as ``<tool_call>``, belongs to its text, because training
learns it like any other token. Only the end token that ends the output does not. Spaces stay as
they are decoded; transformers' ``clean_up_tokenization_spaces`` would remove some of them.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Decode = Callable[[list[int]], str]


@dataclass(frozen=True)
class OutputText:
    """Turns the ids of an output into its text; ``ends`` are the tokens that end outputs."""

    decode: Decode  # from ids to text, special tokens included
    ends: frozenset[int]

    @classmethod
    def of(
        cls, tokenizer: "Tokenizer | PreTrainedTokenizerBase", ends: Iterable[int]
    ) -> "OutputText":
        """Take a tokenizer of either library."""
        return cls(decoder_of(tokenizer), frozenset(ends))

    def __call__(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the text of ``ids`` (T,) without end tokens at the end."""
        return self.decode(without_ends([int(token) for token in ids], self.ends))

    def writable(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the text of ``ids`` (T,) up to the first end token, where decoding stops."""
        body = [int(token) for token in ids]
        first = next((i for i, token in enumerate(body) if token in self.ends), len(body))
        return self.decode(body[:first])


def without_ends(ids: Sequence[int], ends: Collection[int]) -> list[int]:
    """Return ``ids`` without the end tokens at the end."""
    length = len(ids)
    while length and ids[length - 1] in ends:
        length -= 1
    return list(ids[:length])


def decoder_of(tokenizer: "Tokenizer | PreTrainedTokenizerBase") -> Decode:
    """Return a function that decodes ids with all special tokens, and leaves spaces as they are."""
    if isinstance(tokenizer, Tokenizer):
        return partial(tokenizer.decode, skip_special_tokens=False)
    return partial(tokenizer.decode, skip_special_tokens=False, clean_up_tokenization_spaces=False)
