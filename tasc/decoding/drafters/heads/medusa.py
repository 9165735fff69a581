"""Medusa's drafter: heads that each guess one later token from one hidden state of the target.

Cai et al., "Medusa" (2024), section 2.1. Departs: the tree is not a fixed one, calibrated before,
but that of the most probable paths, as if what the heads say were independent. An LM head is run
once a draft, whatever the number of levels.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tasc.decoding.drafters.heads.draft_vocab.full import DraftVocabulary
from tasc.decoding.drafters.heads.eagle import EagleOptions
from tasc.decoding.drafters.heads.reader import HeadDrafter
from tasc.decoding.drafters.heads.tree import product
from tasc.models.medusa import MedusaHeads


class Medusa(HeadDrafter):
    """One sequence's drafter; it remembers one state, that which the last token was made of."""

    def __init__(
        self,
        heads: MedusaHeads,
        vocabulary: Callable[[], DraftVocabulary],
        options: EagleOptions,
    ) -> None:
        """Draft with ``heads`` in the columns of a vocabulary of this sequence's own."""
        self.heads, self.options = heads, options
        self.state = torch.empty(0)  # (1, d)
        super().__init__(vocabulary, heads.weight.device)

    def commit(self, hidden: Tensor, tokens: np.ndarray) -> None:  # noqa: ARG002
        """See HeadDrafter.commit."""
        self.state = hidden[-1:]

    def grow(self, budget: int) -> tuple[Tensor, Tensor, Tensor]:
        """See HeadDrafter.grow."""
        depth, width = min(self.options.depth, budget), min(self.options.width, budget)
        states = self.heads(self.state)[:depth, 0]
        return product(self.vocabulary, states, width=width, budget=budget)
