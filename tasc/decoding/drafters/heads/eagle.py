"""EAGLE-2's drafter: a trained head that reads the target's hidden states and grows a tree."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tasc.decoding.drafters.heads.draft_vocab.full import DraftVocabulary
from tasc.decoding.drafters.heads.reader import HeadDrafter
from tasc.decoding.drafters.heads.tree import grow
from tasc.models.cache import tree_cache
from tasc.models.draft_head import DraftHead
from tasc.options.bounds import MOST_NODES, Bounded, within


@dataclass(frozen=True)
class EagleOptions(Bounded):
    """``depth`` levels of the tree, and ``width`` nodes expanded a level, to as many children."""

    depth: int = within(6, 1, 64)
    width: int = within(10, 1, MOST_NODES)


class Eagle(HeadDrafter):
    """One sequence's drafter; the head and the target's embedding are shared.

    The head has read the pairs (the target's hidden state at i, token i + 1) of what is committed,
    never a state of its own: what it guessed for a tree is forgotten when the tree is drafted. It
    reads them when a draft is asked for, so that steps without a draft cost nothing.
    """

    def __init__(
        self,
        head: DraftHead,
        embedding: nn.Module,
        vocabulary: Callable[[], DraftVocabulary],
        options: EagleOptions,
    ) -> None:
        """Draft with ``head`` in the columns of a vocabulary of this sequence's own."""
        self.head, self.embedding, self.options = head, embedding, options
        super().__init__(vocabulary, next(head.parameters()).device)

    def start(self, prompt: np.ndarray) -> None:
        """See Drafter.start."""
        super().start(prompt)
        self.pending: list[tuple[Tensor, np.ndarray]] = []  # (k, d), and (k,) after them
        self.cache, self.kv_cache = tree_cache(1, len(prompt) + 256)
        self.last = torch.empty(0)  # (1, d) the head's state after the last committed token

    def commit(self, hidden: Tensor, tokens: np.ndarray) -> None:
        """See HeadDrafter.commit."""
        self.pending.append((hidden, tokens))

    def grow(self, budget: int) -> tuple[Tensor, Tensor, Tensor]:
        """See HeadDrafter.grow."""
        self._catch_up()
        return grow(
            self._expand,
            self.kv_cache,
            self.vocabulary,
            self.last,
            width=self.options.width,
            depth=self.options.depth,
            max_nodes=budget,
        )

    def _catch_up(self) -> None:
        """Let the head read what was committed since the last draft."""
        if not self.pending:
            return
        states, committed = zip(*self.pending, strict=True)
        hidden, tokens = torch.cat(states), self.ids(np.concatenate(committed))
        self.pending.clear()
        begin, count = self.kv_cache.length, len(tokens)
        positions = torch.arange(begin, begin + count, device=self.device)
        read = self._forward(tokens, hidden, positions, None)
        self.kv_cache.fill([count]) if begin == 0 else self.kv_cache.keep([range(count - 1)])
        self.last = read[-1:]

    def _expand(self, tokens: Tensor, hidden: Tensor, position: int, mask: Tensor) -> Tensor:
        """Read a level of the tree."""
        positions = torch.full_like(tokens, position)
        return self._forward(tokens, hidden, positions, mask[None, None])

    def _forward(
        self, tokens: Tensor, hidden: Tensor, positions: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Run the head's layer on one sequence: (q, d) from tokens (q,) and hidden (q, d)."""
        embedded = self.embedding(tokens)[None]
        return self.head(embedded, hidden[None], positions[None], mask, self.cache)[0]  # type: ignore[no-any-return]
