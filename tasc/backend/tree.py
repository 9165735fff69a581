"""Draft trees in arrays: node i continues node ``parents[i]``; -1 is the last accepted token."""

import numpy as np

from tasc._native import ancestor_bits, greedy_walk
from tasc._native import tree_inputs as _tree_inputs

__all__ = ["ancestor_bits", "greedy_walk", "tree_inputs"]


def tree_inputs(parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the attention mask and the position offsets of a tree of n nodes.

    Row and column 0 are the last accepted token. The mask (n + 1, n + 1) is True where a row may
    see a column: itself and its ancestors; offsets (n + 1,) int64 are depths, 0 for the last token.
    """
    mask, offsets = _tree_inputs(parents)
    side = len(parents) + 1
    return mask.view(np.bool_).reshape(side, side), offsets
