"""Draft trees in arrays: node i continues node ``parents[i]``; -1 is the last accepted token.

All functions raise InputError if a parent does not precede its child, or above 4,096 nodes.
"""

import numpy as np

from tasc import _native
from tasc.backend.base import refusals


def ancestor_bits(parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ancestors (n, ceil(n / 64)) uint64 and depths (n,) int32 of a tree of n nodes.

    Bit j of word w is set if node 64 w + j is the row's node or one of its ancestors.
    """
    with refusals():
        bits, depths = _native.ancestor_bits(parents)
    n = len(parents)
    return bits.reshape(n, (n + 63) // 64), depths


def greedy_path(tokens: np.ndarray, parents: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return the path (k,) int32 whose nodes have the ``best`` token, (n + 1,), after their parent.

    Entry 0 of ``best`` follows the last accepted token, entry i + 1 follows node i.
    """
    with refusals():
        return _native.greedy_path(tokens, parents, best)


def tree_inputs(parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the attention mask and the position offsets of a tree of n nodes.

    Row and column 0 are the last accepted token. The mask (n + 1, n + 1) is True for a row's own
    column and its ancestors. The offsets (n + 1,) int64 are depths, 0 for the last accepted token.
    """
    with refusals():
        mask, offsets = _native.tree_inputs(parents)
    side = len(parents) + 1
    return mask.view(np.bool_).reshape(side, side), offsets
