"""Verification by what the target itself says: its arg-max, or a token drawn from it."""

from collections.abc import Sequence

import numpy as np
import torch

from tasc.backend.tree import ancestor_bits
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Adjust
from tasc.decoding.core.sampling import NO_TOKEN, Sampling
from tasc.decoding.verify import ops
from tasc.decoding.verify.walks import Law, Walked, follow, sampled_walk
from tasc.errors import InputError


def target_law(draft: Draft, rows: torch.Tensor, sampling: Sampling, adjust: Adjust | None) -> Law:
    """Return the target's law after a node, made only when it is asked for."""

    def law(node: int, path: Sequence[int]) -> torch.Tensor:
        row = rows[node + 1]
        if adjust is not None:
            row = adjust(draft.tokens[list(path)].tolist(), row)
        return sampling.law(row)

    return law


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


class Sampled:
    """Sample a token from the target at each node and follow the child that proposes it.

    Whatever is drafted, each token is a draw from the target, and the random number that it is
    drawn with belongs to its place in the output. So the output depends on the seed alone: every
    drafter gives the one of autoregressive decoding, token for token but for rounding: Daliri et
    al., "Coupling without Communication and Drafter-Invariant Speculative Decoding" (2024).
    """

    def __init__(self, sampling: Sampling) -> None:
        """Start the random numbers of one sequence."""
        self.sampling = sampling
        self.random = np.random.default_rng(sampling.seed)
        self.ahead = np.empty(0)  # the numbers of places that are not settled

    def __call__(self, draft: Draft, rows: torch.Tensor, adjust: Adjust | None = None) -> Walked:
        """Verify one step; see Verifier."""
        places = np.append(0, ancestor_bits(draft.parents)[1] + 1)
        missing = int(places.max()) + 1 - len(self.ahead)
        self.ahead = np.append(self.ahead, self.random.random(max(missing, 0)))
        path, bonus = self._walk(draft, rows, adjust, self.ahead[places])
        self.ahead = self.ahead[len(path) + 1 :]
        return path, bonus

    def _walk(
        self, draft: Draft, rows: torch.Tensor, adjust: Adjust | None, uniforms: np.ndarray
    ) -> Walked:
        if adjust is None and not self.sampling.cuts and ops.available(rows):
            t = self.sampling.temperature
            return ops.run(ops.SAMPLED, rows, draft.tokens, draft.parents, t, uniforms)
        return sampled_walk(draft, target_law(draft, rows, self.sampling, adjust), uniforms)
