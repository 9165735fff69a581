"""Verification: from a draft and the target's rows to the accepted path and the bonus token."""

import numpy as np
import torch

from tasc.backend.tree import greedy_walk
from tasc.spec.draft import Draft


def greedy(draft: Draft, rows: torch.Tensor) -> tuple[np.ndarray, int]:
    """Walk the tree along the target's arg-max (METHODS section 10).

    ``rows`` (n + 1, V) are logits: row 0 after the last token, row i + 1 after node i. Returns the
    accepted nodes, root to leaf, and the token the target puts after them.
    """
    best = rows.argmax(-1).to(torch.int32).cpu().numpy()
    if len(draft) == 0:
        return np.empty(0, np.int32), int(best[0])
    path = greedy_walk(draft.tokens, draft.parents, best)
    return path, int(best[path[-1] + 1 if len(path) else 0])
