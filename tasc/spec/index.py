"""The corpus index: built from outputs, saved as one file, mapped and shared by processes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc._native import NgramIndex
from tasc.errors import InputError

TOKEN_LIMIT = 0xFFFFF  # ids are kept in 20 bits, the largest of which is the mark


@dataclass(frozen=True)
class IndexOptions:
    """How to count: contexts up to ``n_max`` tokens, continuations seen ``p_min`` times or more.

    p(t | c) = max(n(c, t) - discount, 0) / (n(c) + strength) + the rest to the context without its
    first token. ``mark``: an output's beginning is a context of its own.
    """

    n_max: int = 6
    p_min: int = 1
    discount: float = 0.8
    strength: float = 1.0
    mark: bool = True

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        if not 1 <= self.n_max <= 15:
            raise InputError(f"n_max must be between 1 and 15, got {self.n_max}")
        if self.p_min < 1:
            raise InputError(f"p_min must be at least 1, got {self.p_min}")
        if not 0 <= self.discount < 1:
            raise InputError(f"discount must be in [0, 1), got {self.discount}")
        if self.strength < 0:
            raise InputError(f"strength must be at least 0, got {self.strength}")


def build_index(outputs: Sequence[np.ndarray], end: int, options: IndexOptions) -> NgramIndex:
    """Count the n-grams of ``outputs``, each (T_i,) int32, the ``end`` token after each.

    Raises:
        InputError: there are no outputs, or a token id does not fit the index.
    """
    if not len(outputs):
        raise InputError("the corpus has no outputs to count n-grams in")
    tokens = np.concatenate(outputs).astype(np.int32, copy=False)
    largest = max(int(tokens.max(initial=0)), end)
    if largest >= TOKEN_LIMIT:
        raise InputError(f"an index holds token ids below {TOKEN_LIMIT}, the corpus has {largest}")
    offsets = np.cumsum([0, *map(len, outputs)], dtype=np.int64)
    o = options
    return NgramIndex(tokens, offsets, end, o.n_max, o.discount, o.strength, o.p_min, o.mark)
