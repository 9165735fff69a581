"""What drafts in a vocabulary of its own: a model as a tree of texts that grows and is cut."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from tasc.models.target import Target

_ROOM = 64  # positions for the first steps; the cache grows when it must


class DraftModel(Protocol):
    """A draft model on one sequence. A node is a text: what was followed, and tokens after it."""

    def follow(self, ids: Sequence[int]) -> int:
        """Let ``ids`` be the text, at least one token; return its node. Older nodes are void."""

    def extend(self, parents: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """Return the nodes of texts with one more token, known ones or new, in one forward."""

    def known(self, parent: int, token: int) -> int | None:
        """Return the node of a text with one more token if it costs no forward."""

    def row(self, node: int) -> torch.Tensor:
        """Return the logits (V_D,) after a node's text."""

    @property
    def evaluated(self) -> int:
        """Texts evaluated since ``follow``."""


class NeuralDraftModel:
    """A causal language model. Its cache holds the text, and a slot a node behind it.

    A node is its slot. The text that is kept from one step to the next, and what was drafted and
    came true, is not evaluated again.
    """

    def __init__(self, model: Target) -> None:
        """Speak with ``model``, which this sequence alone may use."""
        self.model = model
        self.committed: list[int] = []  # the tokens of slots 0..; nodes follow
        self.skipped = 0  # tokens at the beginning of the text that are too far back
        self._forget()
        self.last: torch.Tensor | None = None

    def _forget(self) -> None:
        self.tokens: list[int] = []  # of nodes
        self.ancestors: list[list[int]] = []  # of nodes: slots behind the text, itself included
        self.rows: list[torch.Tensor] = []
        self.children: dict[tuple[int, int], int] = {}

    @property
    def evaluated(self) -> int:
        """See DraftModel.evaluated."""
        return len(self.tokens)

    def follow(self, ids: Sequence[int]) -> int:
        """See DraftModel.follow."""
        ids = self._within(ids)
        shared = _shared(self.committed, ids)
        path: list[int] = []
        if shared == len(self.committed):
            node: int | None = shared - 1
            for token in ids[shared:]:
                node = self.children.get((node, token)) if node is not None else None
                if node is None:
                    break
                path.append(node)
        held = shared + len(path)
        row = self.rows[path[-1] - len(self.committed)] if path else self.last
        if held == len(ids) and (shared < len(self.committed) or row is None):
            path, shared = path[:-1], shared - (not path)
            held -= 1
        if self.committed:
            self.model.kv_cache.select(shared, path)
        if held < len(ids):
            row = self._read(ids, held)
        self.committed, self.last = list(ids), row
        self._forget()
        return len(ids) - 1

    def _within(self, ids: Sequence[int]) -> list[int]:
        """Leave out the beginning of a text that does not fit the model's positions."""
        most = self.model.max_positions
        if most and len(ids) - self.skipped > most * 3 // 4:
            self.skipped = len(ids) - most // 2
        return list(ids[self.skipped :])

    @torch.inference_mode()
    def _read(self, ids: list[int], held: int) -> torch.Tensor:
        """Evaluate ``ids`` from the first that is not in the cache; return the row of the last."""
        model = self.model
        if held == 0:
            room = min(_ROOM, model.max_positions - len(ids)) if model.max_positions else _ROOM
            return model.prefill(np.array(ids, np.int32), room)[0]
        new = torch.tensor([ids[held:]], device=model.device)
        positions = torch.arange(held, len(ids), device=model.device)[None]
        row = model.forward(model.cache, new, positions, None, 1)[0, 0]
        model.kv_cache.advance(len(ids) - held)
        return row

    def known(self, parent: int, token: int) -> int | None:
        """See DraftModel.known."""
        return self.children.get((parent, token))

    @torch.inference_mode()
    def extend(self, parents: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """See DraftModel.extend."""
        wanted = list(zip(parents, tokens, strict=True))
        new = [key for key in dict.fromkeys(wanted) if key not in self.children]
        if new:
            self._evaluate(new)
        return [self.children[key] for key in wanted]

    def _evaluate(self, new: list[tuple[int, int]]) -> None:
        base, first = len(self.committed), len(self.committed) + len(self.tokens)
        for i, (parent, token) in enumerate(new):
            before = self.ancestors[parent - base] if parent >= base else []
            self.ancestors.append([*before, first + i])
            self.tokens.append(token)
            self.children[parent, token] = first + i
        depths = self.ancestors[first - base :]
        model = self.model
        ids = torch.tensor([[token for _, token in new]], device=model.device)
        positions = torch.tensor([[base + len(d) - 1 for d in depths]], device=model.device)
        mask = None
        if len(new) > 1 or len(depths[0]) <= first - base:
            mask = torch.zeros((len(new), first + len(new)), dtype=torch.bool)
            mask[:, :base] = True
            for i, slots in enumerate(depths):
                mask[i, slots] = True
            mask = mask[None, None].to(model.device)
        rows = model.forward(model.cache, ids, positions, mask)[0]
        model.kv_cache.advance(len(new))
        self.rows += list(rows)

    def row(self, node: int) -> torch.Tensor:
        """See DraftModel.row."""
        at = node - len(self.committed)
        if at >= 0:
            return self.rows[at]
        assert self.last is not None
        return self.last


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many tokens ``a`` and ``b`` begin with alike."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))
