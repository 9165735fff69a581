"""Sampling: turns a row of logits into the distribution of the next token."""

from dataclasses import dataclass

import torch

from tasc.errors import InputError
from tasc.options.bounds import check_temperature

NO_TOKEN = (
    "a row of logits has no finite maximum: the model or a logits processor excludes all tokens; "
    "check the model's weights"
)

_USUAL_NUCLEUS = 1024


@dataclass(frozen=True)
class Sampling:
    """Sample from softmax(logits / temperature), restricted to top-k, then top-p.

    ``top_k`` keeps the k most likely tokens and ties with the last of them (0 = all). ``top_p``
    keeps the fewest most likely tokens whose mass reaches it (1 = all). Rules and order are those
    in transformers. ``seed`` fixes the random numbers.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        if self.top_k < 0:
            raise InputError(f"top_k must be 0 (all tokens) or more, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p must be above 0 and at most 1 (all tokens), got {self.top_p}")
        if self.seed < 0:
            raise InputError(f"seed must be 0 or more, got {self.seed}")

    @property
    def cuts(self) -> bool:
        """Whether some tokens may get probability 0."""
        return self.top_k > 0 or self.top_p < 1

    def distribution(self, row: torch.Tensor) -> torch.Tensor:
        """Return the distribution (V,) float32 of a row of logits (V,), of any float dtype.

        Raises InputError for a row without a finite maximum.
        """
        scores = row.float() / self.temperature
        scores = torch.where(scores.isnan(), float("-inf"), scores)
        if not torch.isfinite(scores.max()):
            raise InputError(NO_TOKEN)
        if 0 < self.top_k < len(scores):
            least = scores.topk(self.top_k).values[-1]
            scores = scores.masked_fill(scores < least, float("-inf"))
        if self.top_p < 1:
            scores = _nucleus(scores, self.top_p)
        return scores.softmax(-1)


def _nucleus(scores: torch.Tensor, top_p: float) -> torch.Tensor:
    """Keep the fewest most likely tokens whose mass reaches ``top_p``."""
    distribution = scores.softmax(-1)
    # Nuclei are small; sorting 152k tokens would take a tenth of a small model's step.
    values, order = distribution.topk(min(_USUAL_NUCLEUS, len(distribution)))
    if float(values.sum()) < top_p:
        values, order = distribution.sort(descending=True)
    inside = values.cumsum(-1) - values < top_p
    inside[0] = True
    nucleus = order[inside]
    return torch.full_like(scores, float("-inf")).index_copy(0, nucleus, scores[nucleus])
