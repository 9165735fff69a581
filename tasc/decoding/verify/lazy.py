"""Rejection sampling on a chain whose distributions only give bounds on single probabilities.

Leviathan et al., algorithm 1, needs q of the drafted token to accept or reject it, and all of q to
draw from the residual after a rejection. Bounds suffice for both. They are refined until they
decide u · q < p. The residual max(p - q, 0) is drawn by proposing tokens from p and accepting token
t with probability 1 - q(t) / p(t). A rejection is as likely as the acceptance of a proposal, so
that a draft token needs one proposal in expectation.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch

from tasc.decoding.core.draft import Bounds, Draft, LazyProposal
from tasc.decoding.verify.reference import Distribution, Verified

PROPOSALS = 100_000  # if all of them fail, p and q are equal except for rounding


def verify_lazy(
    draft: Draft, q: LazyProposal, distribution: Distribution, random: np.random.Generator
) -> Verified:
    """Verify the chain ``draft``, whose nodes were drawn from ``q``."""
    path: list[int] = []
    for node, token in enumerate(draft.tokens.tolist()):
        p = distribution(node - 1, path).double()
        if not below(q.distributions[node](token), _over(float(p[token]), random.random())):
            return np.array(path, np.int32), _residual(p, q.distributions[node], random)
        path.append(node)
    beyond = q.distributions[len(draft)] if len(q.distributions) > len(draft) else None
    return np.array(path, np.int32), _residual(
        distribution(len(draft) - 1, path).double(), beyond, random
    )


def _over(p: float, uniform: float) -> float:
    return p / uniform if uniform > 0 else math.inf if p > 0 else 0.0


def below(bounds: Iterator[tuple[float, float]], limit: float) -> bool:
    """Return whether the bounded value is below ``limit``; refine no more than needed."""
    low = 0.0
    for low, high in bounds:
        if high < limit:
            return True
        if low >= limit:
            return False
    return low < limit


def _residual(p: torch.Tensor, q: Bounds | None, random: np.random.Generator) -> int:
    """Draw from the residual of ``p`` (V,) after ``q``."""
    cumulated = p.cumsum(-1)
    last = int(p.nonzero()[-1])
    token = last
    for _ in range(PROPOSALS):
        uniform = random.random() * float(cumulated[-1])
        token = min(int(torch.searchsorted(cumulated, uniform, right=True)), last)
        if q is None or below(q(token), (1 - random.random()) * float(p[token])):
            break
    return token
