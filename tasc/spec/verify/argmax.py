"""Greedy verification: along the target's arg-max (METHODS section 10)."""

from collections.abc import Sequence

import numpy as np
import torch

from tasc.errors import InputError
from tasc.spec.draft import Draft
from tasc.spec.protocols import Adjust
from tasc.spec.sampling import NO_TOKEN
from tasc.spec.verify import ops
from tasc.spec.verify.walks import Walked, follow


def greedy(draft: Draft, rows: torch.Tensor, adjust: Adjust | None = None) -> Walked:
    """Walk the tree along the target's arg-max, the smaller id on ties; see Verifier.

    Without ``adjust`` the walk is one native call that reads only the rows it comes by.
    """
    if adjust is None and ops.available(rows):
        return ops.run(ops.GREEDY, rows, draft.tokens, draft.parents)

    def choose(node: int, path: Sequence[int]) -> int:
        row = rows[node + 1]
        return _best(row if adjust is None else adjust(draft.tokens[list(path)].tolist(), row))

    return follow(draft, choose)


def greedy_reference(draft: Draft, rows: torch.Tensor) -> Walked:
    """Do what ``greedy`` does, in plain torch."""
    return follow(draft, lambda node, _: _best(rows[node + 1]))


def _best(row: torch.Tensor) -> int:
    """Return the smallest id among the largest entries of ``row`` (V,); NaN is none."""
    numbers = torch.where(row.isnan(), float("-inf"), row)
    largest = numbers.max()
    if largest == float("-inf"):
        raise InputError(NO_TOKEN)
    return int(np.argmax((numbers == largest).cpu().numpy()))
