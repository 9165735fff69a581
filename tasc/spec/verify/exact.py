"""Verification by sampling the target: for drafts that carry no probabilities."""

from collections.abc import Sequence

import numpy as np
import torch

from tasc.spec.draft import Draft
from tasc.spec.protocols import Adjust
from tasc.spec.sampling import Sampling
from tasc.spec.verify import ops
from tasc.spec.verify.walks import Law, Walked, sampled_walk


def target_law(draft: Draft, rows: torch.Tensor, sampling: Sampling, adjust: Adjust | None) -> Law:
    """Return the target's law after a node, made only when it is asked for."""

    def law(node: int, path: Sequence[int]) -> torch.Tensor:
        row = rows[node + 1]
        if adjust is not None:
            row = adjust(draft.tokens[list(path)].tolist(), row)
        return sampling.law(row)

    return law


class Sampled:
    """Sample a token from the target at each node and follow the child that proposes it.

    Lossless for any draft that does not know the verifier's random numbers, also one that was
    sampled: whatever is drafted, each token is a draw from the target.
    """

    def __init__(self, sampling: Sampling) -> None:
        """Start the random numbers of one sequence."""
        self.sampling = sampling
        self.random = np.random.default_rng(sampling.seed)

    def __call__(self, draft: Draft, rows: torch.Tensor, adjust: Adjust | None = None) -> Walked:
        """Verify one step; see Verifier."""
        uniforms = self.random.random(len(draft) + 1)
        if adjust is None and not self.sampling.cuts and ops.available(rows):
            t = self.sampling.temperature
            return ops.run(ops.SAMPLED, rows, draft.tokens, draft.parents, t, uniforms)
        return sampled_walk(draft, target_law(draft, rows, self.sampling, adjust), uniforms)
