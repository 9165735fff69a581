"""What drafters with a trained head have in common: they read the target's hidden states."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tasc.decoding.core.draft import Draft
from tasc.decoding.drafters.heads.draft_vocab.full import DraftVocabulary, Unchanging
from tasc.errors import InputError


class HeadDrafter(ABC):
    """One sequence's drafter, in the columns of a vocabulary of its own.

    A subclass says what it remembers of committed tokens and how a tree grows from that; ``budget``
    is never below 1 there. On a device nothing is waited for but the finished tree.
    """

    def __init__(self, vocabulary: Callable[[], DraftVocabulary], device: torch.device) -> None:
        """Draft on ``device``, where the target's hidden states are."""
        self.vocabulary, self.device = vocabulary(), device
        self.start(np.empty(0, np.int32))

    @abstractmethod
    def commit(self, hidden: Tensor, tokens: np.ndarray) -> None:
        """Learn the pairs (the target's state (k, d) at i, token (k,) int32 at i + 1) committed."""

    @abstractmethod
    def grow(self, budget: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return a tree of at most ``budget`` nodes as ``tree.ranked`` does."""

    def start(self, prompt: np.ndarray) -> None:
        """See Drafter.start."""
        self.prompt = prompt
        self.seen: tuple[Tensor, Tensor, np.ndarray] | None = None
        self.begun = False

    def on_hidden_states(self, hidden: Tensor, rows: Tensor, path: np.ndarray) -> None:
        """See UsesHiddenStates.on_hidden_states."""
        self.seen = (hidden, rows, path)

    def observe(self, tokens: np.ndarray) -> None:
        """See Drafter.observe. Raises InputError where the target's states were not handed over."""
        if self.seen is None:
            raise InputError(
                "a draft head reads the target's hidden states: give a model to decode with"
            )
        hidden, rows, path = self.seen
        self.seen = None
        if not self.begun:
            self.begun = True
            self.vocabulary.start(self.ids(self.prompt), hidden)
            self.commit(hidden, np.append(self.prompt[1:], tokens))
        elif len(path) == 0:  # a step without a draft: it should cost next to nothing
            # A copy, as a captured graph writes the next states where these are.
            self.commit(hidden[: len(tokens)].clone(), tokens)
        else:
            self.commit(hidden[self._kept(path, tokens)], tokens)
        if not isinstance(self.vocabulary, Unchanging):
            self.vocabulary.observe(self.ids(tokens), rows, self._kept(path, tokens))

    @torch.inference_mode()
    def draft(self, max_nodes: int) -> Draft:
        """See Drafter.draft: at most ``max_nodes`` nodes, the most probable ones first by level."""
        if max_nodes < 1 or not self.begun:
            return Draft()
        tokens, parents, values = self.grow(max_nodes)
        self.vocabulary.drafted(tokens)
        return _draft(tokens, parents, values)

    def _kept(self, path: np.ndarray, tokens: np.ndarray) -> Tensor:
        """Return the rows that committed ``tokens``: the root's, and those of ``path``."""
        return self.ids(np.append(np.int32(0), path + 1)[: len(tokens)])

    def ids(self, tokens: np.ndarray) -> Tensor:
        """Return tokens or rows as int64 on the device, without waiting for it."""
        return torch.from_numpy(tokens.astype(np.int64)).to(self.device, non_blocking=True)


def _draft(tokens: Tensor, parents: Tensor, values: Tensor) -> Draft:
    """Bring a tree to the host, with one copy, and leave out the nodes that stand for no token."""
    packed = torch.stack((tokens.int(), parents.int(), values.float().view(torch.int32)))
    found = packed.cpu().numpy()
    there = found[0] >= 0  # below a node without a token there is none with one
    position = np.append(
        np.cumsum(there, dtype=np.int32) - 1, np.int32(-1)
    )  # the last is parent -1's
    return Draft(
        found[0, there],
        position[found[1, there]],
        probabilities=np.exp(found[2, there].view(np.float32)),
    )
