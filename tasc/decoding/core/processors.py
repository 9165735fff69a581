"""Logits processors of transformers, applied to the rows that a verifier visits."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from tasc.errors import InputError

# (ids (1, L) int64, scores (1, V) float32) -> scores (1, V)
Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Processors:
    """The adjustment of rows for one sequence: processors see the ids in front of each row.

    Logits are processed once, when verification reaches a node, in the order of the tokens of the
    output, so also a processor that keeps a state sees what it would see without drafts.
    """

    def __init__(
        self, processors: Sequence[Processor], prompt: np.ndarray, room: int, device: torch.device
    ) -> None:
        """Start after ``prompt`` (L,) int32; ``room`` is the most tokens that may follow."""
        self.processors = tuple(processors)
        self.ids = torch.zeros((1, len(prompt) + room), dtype=torch.int64, device=device)
        self.ids[0, : len(prompt)] = torch.from_numpy(prompt.astype(np.int64))
        self.length = len(prompt)

    def extend(self, tokens: Sequence[int]) -> None:
        """Append what a step committed."""
        self._write(tokens)
        self.length += len(tokens)

    def __call__(self, path: Sequence[int], row: torch.Tensor) -> torch.Tensor:
        """Return the row (V,) float32 after the sequence and the tokens of ``path``."""
        self._write(path)
        ids = self.ids[:, : self.length + len(path)]
        # Processors may write into what they get; the target's rows must stay as they are.
        scores = row[None].to(torch.float32, copy=True)
        for processor in self.processors:
            scores = processor(ids, scores)
        if scores.shape != (1, len(row)):
            raise InputError(
                f"logits processors returned shape {tuple(scores.shape)}: return (1, {len(row)})"
            )
        return scores[0]

    def _write(self, tokens: Sequence[int]) -> None:
        end = self.length + len(tokens)
        self.ids[0, self.length : end] = torch.tensor(tokens, dtype=torch.int64)
