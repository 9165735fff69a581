"""Several sequences on one model: rows of different length with a different tree each.

A row's keys lie at its own positions from 0 on, and a step writes behind the longest row, so that
every layer stores with one copy. What a shorter row has in between is stale: the mask hides it, and
the accepted tokens move down to their places once a step, for all layers at once.
"""

from collections.abc import Sequence

import numpy as np
import torch

from tasc.backend.tree import tree_inputs
from tasc.errors import InputError
from tasc.models.cache import Storage, tree_cache
from tasc.models.target import Target

Tree = tuple[np.ndarray, np.ndarray]  # tokens (n,) int32, parents (n,) int32


class BatchTarget:
    """Up to ``size`` sequences at a time on one target; they may come and go at any step.

    ``begin`` once; then ``join`` and ``leave`` between steps, and (``score``, ``keep``) once a step
    for all rows in use. Rows are numbered from 0 in the order of joining; one that leaves gives its
    number to the last.

    With ``hidden`` the last hidden states of the latest forward stay in ``states`` (B, q, d): in
    the order of ``join``'s prompts or of the rows, padding behind each row's own.
    """

    def __init__(self, target: Target, size: int) -> None:
        """Share the model of ``target``; raises InputError when ``size`` is below 1."""
        if size < 1:
            raise InputError(f"a batch holds at least 1 sequence, got {size}")
        self.target, self.size = target, size
        self.storage: Storage

    @property
    def states(self) -> torch.Tensor | None:
        """The hidden states of the latest forward, where they are kept."""
        return self.target.states

    def begin(self, capacity: int, *, hidden: bool = False) -> None:
        """Forget all rows; plan for ``capacity`` positions of each."""
        self.target.watched, self.target.states = hidden, None
        self.cache, self.storage = tree_cache(self.target.layers, capacity, self.size)

    def __len__(self) -> int:
        """Return the number of rows in use."""
        return len(self.storage.lengths)

    @torch.inference_mode()
    def join(self, prompts: Sequence[np.ndarray]) -> torch.Tensor:
        """Read ``prompts``, each (L_i,) int32, into new rows; return their last logits (r, V)."""
        if len(self) + len(prompts) > self.size:
            raise InputError(
                f"{len(prompts)} sequences cannot join {len(self)} in a batch of {self.size}"
            )
        lengths = np.array([len(p) for p in prompts])
        ids = np.zeros((len(prompts), lengths.max()), np.int64)
        for row, prompt in zip(ids, prompts, strict=True):
            row[: len(prompt)] = prompt
        device = self.target.device
        # Padding stands behind the prompts, where causal attention does not look: no mask.
        positions = torch.arange(ids.shape[1], device=device).expand(len(prompts), -1)
        last, which = np.unique(lengths - 1, return_inverse=True)
        self.storage.open()
        logits = self.target.forward(
            self.cache,
            torch.from_numpy(ids).to(device),
            positions,
            None,
            torch.from_numpy(last).to(device),
        )
        self.storage.fill(lengths.tolist())
        return logits[torch.arange(len(prompts)), torch.from_numpy(which)]

    @torch.inference_mode()
    def score(self, last: Sequence[int], trees: Sequence[Tree]) -> torch.Tensor:
        """Return the logits (B, 1 + n, V) of each row's ``last`` token and tree, in one forward.

        n is the largest tree's number of nodes; behind the nodes of a smaller one stands padding.
        """
        widest = max(len(tokens) for tokens, _ in trees)
        ids = np.zeros((len(trees), 1 + widest), np.int64)
        ids[:, 0] = last
        positions = np.repeat(self.storage.lengths[:, None], 1 + widest, axis=1)
        mask = self._mask(1 + widest)
        if widest:
            for row, (tokens, parents) in enumerate(trees):
                n, start = len(tokens), self.storage.length
                seen, depths = tree_inputs(parents)
                ids[row, 1 : 1 + n] = tokens
                positions[row, : 1 + n] += depths
                mask[row, 0, : 1 + n, start : start + 1 + n] = seen
        device = self.target.device
        return self.target.forward(
            self.cache,
            torch.from_numpy(ids).to(device),
            torch.from_numpy(positions).to(device),
            torch.from_numpy(mask).to(device) if not mask.all() else None,
        )

    def _mask(self, queries: int) -> np.ndarray:
        """(B, 1, q, k): each query sees its row's accepted tokens and itself, padding as well.

        A query that saw nothing would yield NaN, and write it into the cache.
        """
        lengths, start = self.storage.lengths, self.storage.length
        mask = np.zeros((len(lengths), 1, queries, start + queries), np.bool_)
        mask[..., :start] = np.arange(start) < lengths[:, None, None, None]
        mask[..., start:] = np.eye(queries, dtype=np.bool_)
        return mask

    def keep(self, paths: Sequence[Sequence[int] | np.ndarray]) -> None:
        """Accept each row's last token and the nodes of its path; forget the other nodes."""
        self.storage.keep(paths)

    def leave(self, row: int) -> None:
        """Take ``row`` out of the batch; the last row gets its number."""
        self.storage.drop(row)
