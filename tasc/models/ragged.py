"""Forwards over trees of different sizes without padding, which takes time on a CPU.

All tokens follow each other in one row. Attention and its cache pad what they are given.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch


@dataclass(frozen=True, eq=False)
class Ragged:
    """The places of N tokens in a padded batch: ``at`` (N,) int64, ascending."""

    at: torch.Tensor  # sequence times ``longest`` plus place in the sequence
    sizes: Sequence[int]  # of the sequences
    longest: int

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Self:
        """Place ``sizes[i]`` tokens at the beginning of sequence i."""
        longest = max(sizes)
        at = [np.arange(size) + i * longest for i, size in enumerate(sizes)]
        return cls(torch.from_numpy(np.concatenate(at)), sizes, longest)

    def pad(self, flat: torch.Tensor) -> torch.Tensor:
        """Return (sequences, longest, ...) of tokens (1, N, ...), and zeros."""
        padded = flat.new_zeros(len(self.sizes) * self.longest, *flat.shape[2:])
        padded.index_copy_(0, self.at, flat[0])
        return padded.view(len(self.sizes), self.longest, *flat.shape[2:])

    def pad_heads(self, flat: torch.Tensor) -> torch.Tensor:
        """Return (sequences, heads, longest, d) of tokens (1, heads, N, d), and zeros."""
        return self.pad(flat.transpose(1, 2)).transpose(1, 2)

    def flatten(self, padded: torch.Tensor) -> torch.Tensor:
        """Return the tokens (1, N, ...) of a batch (sequences, longest, ...)."""
        return padded.reshape(-1, *padded.shape[2:]).index_select(0, self.at)[None]

    def run(self, forward: Callable[..., torch.Tensor], *padded: torch.Tensor) -> torch.Tensor:
        """Run ``forward`` on the tokens of ``padded`` arrays; return its output, padded."""
        token = current.set(self)
        try:
            return self.pad(forward(*map(self.flatten, padded)))
        finally:
            current.reset(token)


current: ContextVar[Ragged | None] = ContextVar("ragged", default=None)  # of the present forward
