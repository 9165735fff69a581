"""A draft model as a tree of texts that grows with each draft and is cut by each step."""

import os
from collections.abc import Sequence

import numpy as np
import torch

from tasc.models.target import Target

_ROOM = 64  # spare positions at first; the cache grows on demand


class NeuralDraftModel:
    """A causal language model on one sequence; its cache has the text, then one slot per node.

    A node is a text: the followed one plus drafted tokens. It is identified by its slot. Text that
    is already in the cache, including accepted drafts, is not evaluated again. ``model`` must
    belong to this sequence alone.
    """

    def __init__(self, model: Target) -> None:
        self.model = model
        self.committed: list[int] = []  # the tokens of the first slots; nodes follow
        self.skipped = 0  # leading tokens of the text that no longer fit
        self._forget()
        self.last: torch.Tensor | None = None

    def _forget(self) -> None:
        self.tokens: list[int] = []  # of nodes
        self.ancestors: list[list[int]] = []  # of nodes: their slots, including their own
        self.rows: list[torch.Tensor] = []
        self.children: dict[tuple[int, int], int] = {}

    @property
    def evaluated(self) -> int:
        return len(self.tokens)

    def follow(self, ids: Sequence[int]) -> int:
        """Make ``ids`` (not empty) the text and return its node. Older nodes become invalid."""
        most = self.model.max_positions
        if most and len(ids) - self.skipped > most * 3 // 4:
            self.skipped = len(ids) - most // 2
        ids = list(ids[self.skipped :])
        shared = len(os.path.commonprefix([self.committed, ids]))  # noqa: RUF071 - of lists
        path = self._path(ids[shared:]) if shared == len(self.committed) else []
        cached = shared + len(path)
        row = self.rows[path[-1] - len(self.committed)] if path else self.last
        if cached == len(ids) and (shared < len(self.committed) or row is None):
            path, shared = path[:-1], shared - (not path)
            cached -= 1
        if self.committed:
            self.model.kv_cache.select(shared, path)
        if cached < len(ids):
            row = self._read(ids, cached)
        self.committed, self.last = ids, row
        self._forget()
        return len(ids) - 1

    def _path(self, tokens: Sequence[int]) -> list[int]:
        """Return the nodes after the text that spell the first of ``tokens``."""
        path, node = list[int](), len(self.committed) - 1
        for token in tokens:
            child = self.known(node, token)
            if child is None:
                break
            path.append(child)
            node = child
        return path

    @torch.inference_mode()
    def _read(self, ids: list[int], cached: int) -> torch.Tensor:
        """Evaluate ``ids`` after the ``cached`` first ones; return the last row of logits."""
        model = self.model
        if cached == 0:
            room = min(_ROOM, model.max_positions - len(ids)) if model.max_positions else _ROOM
            return model.prefill(np.array(ids, np.int32), room)[0]
        new = torch.tensor([ids[cached:]], device=model.device)
        positions = torch.arange(cached, len(ids), device=model.device)[None]
        row = model.forward(model.cache, new, positions, None, 1)[0, 0]
        model.kv_cache.advance(len(ids) - cached)
        return row

    def known(self, parent: int, token: int) -> int | None:
        """Return the node of a text with one more token, or None if it needs a forward."""
        return self.children.get((parent, token))

    @torch.inference_mode()
    def extend(self, parents: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """Return the nodes of texts with one more token; evaluate new ones in one forward."""
        wanted = list(zip(parents, tokens, strict=True))
        if new := [key for key in dict.fromkeys(wanted) if key not in self.children]:
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
        is_chain = len(new) == 1 and len(depths[0]) > first - base
        mask = None if is_chain else self._mask(depths, first + len(new))
        rows = model.forward(model.cache, ids, positions, mask)[0]
        model.kv_cache.advance(len(new))
        self.rows += list(rows)

    def _mask(self, depths: Sequence[list[int]], width: int) -> torch.Tensor:
        """Return the mask (1, 1, n, width) of n nodes, which see the text and their ancestors."""
        mask = torch.zeros((len(depths), width), dtype=torch.bool)
        mask[:, : len(self.committed)] = True
        for i, slots in enumerate(depths):
            mask[i, slots] = True
        return mask[None, None].to(self.model.device)

    def row(self, node: int) -> torch.Tensor:
        """Return the logits (V_D,) after a node's text."""
        at = node - len(self.committed)
        if at >= 0:
            return self.rows[at]
        assert self.last is not None
        return self.last
