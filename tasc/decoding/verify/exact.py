"""Verification with the target's own choice: its arg-max, or a token sampled from it."""

from collections.abc import Sequence

import numpy as np
import torch

from tasc.backend.tree import ancestor_bits, greedy_path
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.grammar import Masks
from tasc.decoding.core.protocols import Adjust
from tasc.decoding.core.sampling import NO_TOKEN, Sampling
from tasc.decoding.verify import ops
from tasc.decoding.verify.reference import Distribution, Verified, coupled_reference, follow
from tasc.errors import InputError
from tasc.models.certified_head import Logits, TopLogits


def target_distribution(
    draft: Draft, logits: torch.Tensor, sampling: Sampling, adjust: Adjust | None
) -> Distribution:
    """Return a function that computes the target's distribution after a node."""

    def distribution(node: int, path: Sequence[int]) -> torch.Tensor:
        row = logits[node + 1]
        if adjust is not None:
            row = adjust(draft.tokens[list(path)].tolist(), row)
        return sampling.distribution(row)

    return distribution


def greedy(draft: Draft, logits: Logits, adjust: Adjust | None = None) -> Verified:
    """Walk the tree along the target's arg-max, taking the smaller id on ties.

    Without ``adjust``, the largest logits are enough, and one native call reads only those on its
    path. With a grammar, that is enough if the grammar allows what it finds.
    """
    if isinstance(logits, TopLogits):
        best = np.ascontiguousarray(logits.ids[:, 0])
        path = greedy_path(draft.tokens, draft.parents, best)
        return path, int(best[path[-1] + 1 if len(path) else 0])
    if (adjust is None or isinstance(adjust, Masks)) and ops.available(logits.device):
        path, bonus = ops.run(ops.GREEDY, logits, draft.tokens, draft.parents)
        if adjust is None or adjust.allows([*draft.tokens[path].tolist(), bonus]):
            return path, bonus

    def choose(node: int, path: Sequence[int]) -> int:
        row = logits[node + 1]
        return _best(row if adjust is None else adjust(draft.tokens[list(path)].tolist(), row))

    return follow(draft, choose)


def _best(row: torch.Tensor) -> int:
    """Return the smallest id among the largest entries of ``row`` (V,), ignoring NaN."""
    numbers = torch.where(row.isnan(), float("-inf"), row)
    largest = numbers.max()
    if largest == float("-inf"):
        raise InputError(NO_TOKEN)
    return int(np.argmax((numbers == largest).cpu().numpy()))


class Sampled:
    """Sample a token from the target at each node and follow the child that proposes it.

    Each position of the output has its own random number, whatever is drafted. The output thus
    depends on the seed alone: with any drafter it equals that of autoregressive decoding, except
    for rounding. Daliri et al., "Coupling without Communication and Drafter-Invariant Speculative
    Decoding" (2024).
    """

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self.random = np.random.default_rng(sampling.seed)
        self.ahead = np.empty(0)  # random numbers of positions not yet committed

    def __call__(
        self, draft: Draft, logits: torch.Tensor, adjust: Adjust | None = None
    ) -> Verified:
        positions = np.append(0, ancestor_bits(draft.parents)[1] + 1)
        missing = int(positions.max()) + 1 - len(self.ahead)
        self.ahead = np.append(self.ahead, self.random.random(max(missing, 0)))
        uniforms = self.ahead[positions]
        if adjust is None and not self.sampling.cuts and ops.available(logits.device):
            arguments = (draft.tokens, draft.parents, self.sampling.temperature, uniforms)
            path, bonus = ops.run(ops.SAMPLED, logits, *arguments)
        else:
            distribution = target_distribution(draft, logits, self.sampling, adjust)
            path, bonus = coupled_reference(draft, distribution, uniforms)
        self.ahead = self.ahead[len(path) + 1 :]
        return path, bonus
