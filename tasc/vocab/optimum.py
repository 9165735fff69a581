"""The shortest segmentation that the new tokens allow, by dynamic programming.

A tokenizer takes the leftmost and longest n-gram (or, in a BPE, merges by rank); another choice can
need fewer tokens. How much that would save is worth knowing, and hardly ever worth having: models
see what their tokenizer makes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasc.data.tokenizer import Encoded
from tasc.vocab.outputs import Outputs

SAMPLE = 200_000  # base tokens to look at: enough for a ratio
NOTABLE = 0.01  # a difference worth a line


@dataclass(frozen=True)
class Optimum:
    """Tokens that a sample of the outputs needs."""

    reached: int  # by the saved tokenizer
    shortest: int  # by the best choice of new tokens over base tokens
    outputs: int  # in the sample, each once

    @property
    def excess(self) -> float:
        """How many tokens more the saved tokenizer takes, as a share of the shortest."""
        return self.reached / max(self.shortest, 1) - 1

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "reached": self.reached,
            "shortest": self.shortest,
            "outputs": self.outputs,
            "excess": self.excess,
        }


def optimum(
    outputs: Outputs, after: Encoded, strings: Sequence[bytes], added: Sequence[bytes]
) -> Optimum:
    """Compare the saved tokenizer's segmentation ``after`` with the shortest one.

    Both keep the base tokens' edges and, where the export does, the pre-tokens'. Distinct outputs
    spread evenly over all are looked at, up to some number of tokens.
    """
    encoded = outputs.encoded
    words = _Words(added)
    distinct = len(encoded.offsets) - 1
    step = max(1, round(len(encoded.tokens) / SAMPLE))
    reached = shortest = 0
    for place in range(0, distinct, step):
        begin, end = (int(at) for at in encoded.offsets[place : place + 2])
        pieces = [strings[i] for i in encoded.tokens[begin:end].tolist()]
        starts = outputs.starts[begin:end].tolist() if outputs.restricted else None
        shortest += _shortest(pieces, starts, words)
        reached += int(after.offsets[place + 1] - after.offsets[place])
    return Optimum(reached, shortest, len(range(0, distinct, step)))


class _Words:
    """The new tokens' strings and all their beginnings."""

    def __init__(self, strings: Sequence[bytes]) -> None:
        self.whole = set(strings)
        self.begun = {string[:end] for string in strings for end in range(1, len(string) + 1)}


def _shortest(pieces: list[bytes], starts: list[int] | None, words: _Words) -> int:
    """The fewest tokens for the pieces, some runs of which are new tokens."""
    text = b"".join(pieces)
    cuts = [0, *np.cumsum([len(piece) for piece in pieces]).tolist()]
    inner = [0, *np.cumsum(starts).tolist()] if starts is not None else []
    fewest = [0] * (len(pieces) + 1)
    for first in range(len(pieces) - 1, -1, -1):
        fewest[first] = 1 + fewest[first + 1]
        for last in range(first + 2, len(pieces) + 1):
            part = text[cuts[first] : cuts[last]]
            if part not in words.begun:
                break
            if part in words.whole and _fits(first, last, starts, inner):
                fewest[first] = min(fewest[first], 1 + fewest[last])
    return fewest[0]


def _fits(first: int, last: int, starts: list[int] | None, inner: list[int]) -> bool:
    """Whether a run is whole pre-tokens, or lies inside one."""
    if starts is None:
        return True
    begins = first == 0 or starts[first] == 1
    ends = last == len(starts) or starts[last] == 1
    return (begins and ends) or inner[last] == inner[first + 1]
