"""transformers' logits processors, applied to the rows that a verifier reads."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from tasc.decoding.core.grammar import Masks
from tasc.errors import InputError

# (ids (1, L) int64, scores (1, V) float32) -> scores (1, V)
Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Processors:
    """Applies the processors of one sequence, then its ``masks``.

    Processors receive the ids before each row. Logits are processed once, when verification
    reaches a node, in the order of the output's tokens. So a stateful processor sees the same calls
    as without drafts.
    """

    def __init__(
        self,
        processors: Sequence[Processor],
        prompt: np.ndarray,
        max_new_tokens: int,
        device: torch.device,
        masks: Masks | None = None,
    ) -> None:
        """Start after ``prompt`` (L,) int32; at most ``max_new_tokens`` may follow."""
        self.processors, self.masks = tuple(processors), masks
        self.ids = torch.zeros((1, len(prompt) + max_new_tokens), dtype=torch.int64, device=device)
        self.ids[0, : len(prompt)] = torch.from_numpy(prompt.astype(np.int64))
        self.length = len(prompt)

    def extend(self, tokens: Sequence[int]) -> None:
        self._write(tokens)
        self.length += len(tokens)
        if self.masks is not None:
            self.masks.extend(tokens)

    def __call__(self, path: Sequence[int], row: torch.Tensor) -> torch.Tensor:
        """Return the row (V,) float32 after the sequence and the tokens of ``path``."""
        self._write(path)
        ids = self.ids[:, : self.length + len(path)]
        # Processors may write into their input; the target's rows must not change.
        scores = row[None].to(torch.float32, copy=True)
        for processor in self.processors:
            scores = processor(ids, scores)
        if scores.shape != (1, len(row)):
            raise InputError(
                f"logits processors must return shape (1, {len(row)}), got {tuple(scores.shape)}"
            )
        return scores[0] if self.masks is None else self.masks(path, scores[0])

    def _write(self, tokens: Sequence[int]) -> None:
        end = self.length + len(tokens)
        self.ids[0, self.length : end] = torch.tensor(tokens, dtype=torch.int64)
