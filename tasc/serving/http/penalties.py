"""Penalties of a request on tokens that came before, as vLLM defines them."""

from dataclasses import dataclass

import torch
from transformers import LogitsProcessor, RepetitionPenaltyLogitsProcessor

from tasc.decoding.core.processors import Processor


@dataclass(frozen=True)
class Penalties:
    """``repetition`` is of tokens in the prompt and the output, the others of the output alone.

    None leaves the setting of the model's ``generation_config.json``.
    """

    repetition: float | None = None
    frequency: float = 0.0
    presence: float = 0.0

    def processors(self, prompt_length: int) -> list[Processor]:
        """Return logits processors of an output after ``prompt_length`` tokens, in vLLM's order."""
        found: list[Processor] = []
        if self.repetition is not None:
            found.append(RepetitionPenaltyLogitsProcessor(self.repetition))
        if self.frequency or self.presence:
            found.append(CountPenalties(prompt_length, self.frequency, self.presence))
        return found


class CountPenalties(LogitsProcessor):  # type: ignore[misc]
    """Subtracts ``frequency`` times a token's count in the output, and ``presence`` once."""

    def __init__(self, prompt_length: int, frequency: float, presence: float) -> None:
        self.prompt_length, self.frequency, self.presence = prompt_length, frequency, presence

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return ``scores`` (1, V) after ``input_ids`` (1, L)."""
        written = input_ids[0, self.prompt_length :]
        tokens, counts = torch.unique(written, return_counts=True)
        scores[0, tokens] -= self.frequency * counts + self.presence
        return scores
