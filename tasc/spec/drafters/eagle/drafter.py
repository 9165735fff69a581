"""EAGLE-2's drafter: a trained head that reads the target's hidden states and grows a tree."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tasc.errors import InputError
from tasc.models.cache import tree_cache
from tasc.models.draft_head import DraftHead
from tasc.spec.draft import Draft
from tasc.spec.drafters.eagle.tree import grow
from tasc.spec.drafters.eagle.vocabulary import DraftVocabulary


@dataclass(frozen=True)
class EagleOptions:
    """``depth`` levels of the tree, and ``width`` nodes expanded a level, to as many children."""

    depth: int = 6
    width: int = 10

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        for name in ("depth", "width"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")


class Eagle:
    """One sequence's drafter; the head and the target's embedding are shared.

    The head has read the pairs (the target's hidden state at i, token i + 1) of what is settled,
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
        self.vocabulary = vocabulary()
        self.device = next(head.parameters()).device
        self.start(np.empty(0, np.int32))

    def start(self, prompt: np.ndarray) -> None:
        """See Drafter.start."""
        self.prompt = self._ids(prompt)
        self.pending: list[tuple[Tensor, Tensor]] = []  # (hidden (k, d), tokens after them (k,))
        self.cache, self.storage = tree_cache(1, len(prompt) + 256)
        self.last = torch.empty(0)  # (1, d) the head's state after the last settled token
        self.seen: tuple[Tensor, Tensor, np.ndarray] | None = None
        self.begun = False

    def read(self, hidden: Tensor, rows: Tensor, path: np.ndarray) -> None:
        """See Reader.read."""
        self.seen = (hidden, rows, path)

    def observe(self, tokens: np.ndarray) -> None:
        """See Drafter.observe. Raises InputError where the target's states were not handed over."""
        if self.seen is None:
            raise InputError(
                "a draft head reads the target's hidden states: it needs a model to decode with"
            )
        hidden, rows, path = self.seen
        self.seen = None
        settled = self._ids(tokens)
        kept = self._ids(np.append(np.int32(0), path + 1)[: len(tokens)])
        if self.begun:
            self.pending.append((hidden[kept], settled))
        else:
            self.begun = True
            self.vocabulary.start(self.prompt, hidden)
            self.pending.append((hidden, torch.cat((self.prompt[1:], settled))))
        self.vocabulary.observe(settled, rows, kept)

    @torch.inference_mode()
    def draft(self, budget: int) -> Draft:
        """See Drafter.draft: at most ``budget`` nodes, the most probable ones first by level."""
        if budget < 1 or not self.begun:
            return Draft()
        self._catch_up()
        tokens, parents, values = grow(
            self._expand,
            self.storage,
            self.vocabulary,
            self.last,
            width=self.options.width,
            depth=self.options.depth,
            budget=budget,
        )
        self.vocabulary.drafted(tokens)
        return Draft(
            tokens.to(torch.int32).cpu().numpy(),
            parents.to(torch.int32).cpu().numpy(),
            probabilities=values.exp().cpu().numpy(),
        )

    def _catch_up(self) -> None:
        """Let the head read what was settled since the last draft."""
        if not self.pending:
            return
        hidden, tokens = (torch.cat(part) for part in zip(*self.pending, strict=True))
        self.pending.clear()
        begin, count = self.storage.length, len(tokens)
        positions = torch.arange(begin, begin + count, device=self.device)
        states = self._forward(tokens, hidden, positions, None)
        self.storage.fill([count]) if begin == 0 else self.storage.keep([range(count - 1)])
        self.last = states[-1:]

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

    def _ids(self, tokens: np.ndarray) -> Tensor:
        return torch.from_numpy(tokens.astype(np.int64)).to(self.device)
