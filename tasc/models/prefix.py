"""The tokens with which all prompts of a task begin, which a target reads once."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

_FEWEST_SHARED = 4  # tokens: reading fewer costs about as much as copying their keys


@dataclass(frozen=True, eq=False)
class Prefix:
    """A beginning of prompts that was read once: its tokens (P,) int32 and what join needs."""

    tokens: np.ndarray
    blocks: "Mapping[Hashable, torch.Tensor]"  # as in KVCache, of one row and P positions
    states: "torch.Tensor"  # (1, P, d) last hidden states

    def begins(self, prompts: Sequence[np.ndarray]) -> bool:
        """Return whether all ``prompts`` (L,) have these tokens first, and others after them."""
        known, count = self.tokens, len(self.tokens)
        return all(len(p) > count and np.array_equal(p[:count], known) for p in prompts)


def common_prefix(prompts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the tokens (P,) with which all ``prompts`` (L_i,) int32 begin, P < L_i.

    Nothing for a single prompt, and where they are too few to share.
    """
    if len(prompts) < 2:
        return np.empty(0, np.int32)
    first, length = prompts[0], max(min(map(len, prompts)) - 1, 0)
    for other in prompts[1:]:
        unequal = np.flatnonzero(first[:length] != other[:length])
        length = int(unequal[0]) if len(unequal) else length
    return first[: length if length >= _FEWEST_SHARED else 0]
