"""A chain that grows token by token, with the laws its tokens were drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from tasc.spec.draft import AskedLaws, Draft, Laws


@dataclass
class Chain:
    """``drawn`` laws may be one more than tokens: then the last one gave no token."""

    tokens: list[int] = field(default_factory=list)
    likely: list[float] = field(default_factory=list)

    def add(self, token: int, probability: float) -> float:
        """Append a token of that probability; return the probability of the whole chain."""
        self.tokens.append(token)
        self.likely.append(probability * (self.likely[-1] if self.likely else 1.0))
        return self.likely[-1]

    def draft(self, q: Laws | AskedLaws | None) -> Draft:
        """Return the chain as a draft."""
        n = len(self.tokens)
        parents = np.arange(-1, n - 1, dtype=np.int32)
        likely = np.array(self.likely, np.float32)
        return Draft(np.array(self.tokens, np.int32), parents, q, probabilities=likely)

    def laws(self, rows: Sequence[torch.Tensor]) -> Laws | None:
        """Return ``rows``, each (V,) float32, as the chain's laws."""
        if not rows:
            return None
        of = np.arange(len(self.tokens) + 1, dtype=np.int32)
        of[len(rows) :] = -1
        return Laws(torch.stack(list(rows)), of)
