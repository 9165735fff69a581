"""What forwards read: the beginning that all prompts of a task share, and the trees of a step."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tasc.backend.tree import tree_inputs

if TYPE_CHECKING:
    import torch

_FEWEST_SHARED = 4  # tokens: reading fewer costs about as much as copying their keys

Tree = tuple[np.ndarray, np.ndarray]  # tokens (n,) int32, parents (n,) int32


def after(prompt: np.ndarray, tree: Tree) -> Tree:
    """Return ``prompt`` (L,) int32 without its first token, as a chain with ``tree`` at its end."""
    chain = np.arange(-1, len(prompt) - 2, dtype=np.int32)
    return np.append(prompt[1:], tree[0]), np.append(chain, tree[1] + np.int32(len(chain)))


def step_inputs(
    last: Sequence[int], trees: Sequence[Tree], lengths: np.ndarray, start: int, *, blind: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return ids (B, q) and positions (B, q), int64, and the attention mask (B, 1, q, start + q).

    Query 0 is the ``last`` token of a sequence, query i + 1 node i of its tree. ``lengths`` (B,)
    are the cached tokens of the sequences, which the cache pads to ``start``. Padding after a
    smaller tree sees the cached tokens and itself, because a query that sees nothing would write
    NaN into the cache; if it is never run, it is ``blind``. The mask is None if it is causal.
    """
    queries = 1 + max(len(tokens) for tokens, _ in trees)
    ids = np.zeros((len(trees), queries), np.int64)
    ids[:, 0] = last
    positions = np.repeat(lengths[:, None], queries, axis=1)
    if queries == 1 and lengths.min() == start:
        return ids, positions, None
    mask = np.zeros((len(trees), 1, queries, start + queries), np.bool_)
    mask[..., :start] = np.arange(start) < lengths[:, None, None, None]
    mask[..., start:] = np.eye(queries, dtype=np.bool_)
    for row, (tokens, parents) in enumerate(trees):
        n = len(tokens)
        seen, depths = tree_inputs(parents)
        ids[row, 1 : 1 + n] = tokens
        positions[row, : 1 + n] += depths
        mask[row, 0, : 1 + n, start : start + 1 + n] = seen
        if blind:
            mask[row, 0, 1 + n :] = False
    return ids, positions, mask


@dataclass(frozen=True, eq=False)
class Prefix:
    """A beginning of prompts that was read once: its tokens (P,) int32 and what join needs."""

    tokens: np.ndarray
    blocks: "Mapping[Hashable, torch.Tensor]"  # as in KVCache, of one row and P positions
    states: "torch.Tensor | None"  # (1, P, d) last hidden states, if drafters read them

    def begins(self, prompts: Sequence[np.ndarray]) -> bool:
        """Return whether all ``prompts`` (L,) have these tokens first, and others after them."""
        known, count = self.tokens, len(self.tokens)
        return all(len(p) > count and np.array_equal(p[:count], known) for p in prompts)


def common_prefix(prompts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the tokens (P,) with which all ``prompts`` (L_i,) int32 begin, P < L_i.

    Nothing for a single prompt, and where they are too few to share.
    """
    if len(prompts) < 2:
        return np.empty(0, np.int32)
    first, length = prompts[0], max(min(map(len, prompts)) - 1, 0)
    for other in prompts[1:]:
        unequal = np.flatnonzero(first[:length] != other[:length])
        length = int(unequal[0]) if len(unequal) else length
    return first[: length if length >= _FEWEST_SHARED else 0]
