"""Rejection sampling, for drafts that carry the distributions they were drawn from."""

import math
from collections.abc import Iterator

import numpy as np
import torch

from tasc.decoding.core.draft import Bounds, Draft, LazyProposal, ProposalProbs
from tasc.decoding.core.protocols import Adjust
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.verify import ops
from tasc.decoding.verify.exact import target_distribution
from tasc.decoding.verify.reference import Distribution, Verified, rejection_reference
from tasc.errors import InputError

PROPOSALS = 100_000  # if all of them fail, p and q are equal except for rounding


class MultiBranch:
    """Multi-branch rejection sampling on a tree (Miao et al., "SpecInfer", section 4.3).

    ``ProposalProbs.replacement`` records whether siblings were drawn with replacement; EAGLE (Li et
    al.) draws them without. A child without a distribution counts as certain and is accepted with
    the target's probability. This is exact for any draft, but accepts less than the distribution
    that the child was drawn from would.
    """

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self.random = np.random.default_rng(sampling.seed)

    def __call__(
        self, draft: Draft, logits: torch.Tensor, adjust: Adjust | None = None
    ) -> Verified:
        q, distribution = draft.q, target_distribution(draft, logits, self.sampling, adjust)
        if isinstance(q, LazyProposal):
            return verify_lazy(draft, q, distribution, self.random)
        if q is not None and q.probs.shape[1] != logits.shape[1]:
            raise InputError(
                f"the draft's distributions cover {q.probs.shape[1]} tokens, the target's "
                f"{logits.shape[1]}: project them onto the target's vocabulary"
            )
        uniforms = self.random.random(len(draft) + 1)
        if adjust is not None or self.sampling.cuts or not ops.available(logits.device):
            return rejection_reference(draft, distribution, uniforms)
        if q is None:
            none = logits.new_empty((0, logits.shape[1]), dtype=torch.float32)
            q = ProposalProbs(none, np.full(len(draft) + 1, -1, np.int32))
        drawn = draft.tokens, draft.parents, q.probs, q.of, q.replacement
        return ops.run(ops.REJECTION, logits, *drawn, self.sampling.temperature, uniforms)


class Rejection(MultiBranch):
    """Rejection sampling on a chain (Leviathan et al., algorithm 1): accept with min(1, p / q)."""

    def __call__(
        self, draft: Draft, logits: torch.Tensor, adjust: Adjust | None = None
    ) -> Verified:
        """Verify one step. Raises InputError for a draft that branches."""
        if (draft.parents != np.arange(-1, len(draft) - 1)).any():
            raise InputError(
                f"verify=rejection needs chains, got a draft of {len(draft)} nodes that branches: "
                "use verify=multi-branch or sampled, or a method with width=1"
            )
        return super().__call__(draft, logits, adjust)


def verify_lazy(
    draft: Draft, q: LazyProposal, distribution: Distribution, random: np.random.Generator
) -> Verified:
    """Verify the chain ``draft``, whose nodes were drawn from ``q``, by bounds of probabilities.

    Leviathan et al., algorithm 1, needs q of the drafted token to accept or reject it, and all of q
    to draw from the residual after a rejection. Bounds suffice for both. They are refined until
    they decide u · q < p. The residual max(p - q, 0) is drawn by proposing tokens from p and
    accepting token t with probability 1 - q(t) / p(t). A rejection is as likely as the acceptance
    of a proposal, so that a draft token needs one proposal in expectation.
    """
    path: list[int] = []
    for node, token in enumerate(draft.tokens.tolist()):
        p = distribution(node - 1, path).double()
        if not below(q.distributions[node](token), _over(float(p[token]), random.random())):
            return np.array(path, np.int32), _residual(p, q.distributions[node], random)
        path.append(node)
    beyond = q.distributions[len(draft)] if len(q.distributions) > len(draft) else None
    p = distribution(len(draft) - 1, path).double()
    return np.array(path, np.int32), _residual(p, beyond, random)


def _over(p: float, uniform: float) -> float:
    return p / uniform if uniform > 0 else math.inf if p > 0 else 0.0


def below(bounds: Iterator[tuple[float, float]], limit: float) -> bool:
    """Return whether the bounded value is below ``limit``; refine no more than needed."""
    return next(high < limit for low, high in bounds if high < limit or low >= limit)


def _residual(p: torch.Tensor, q: Bounds | None, random: np.random.Generator) -> int:
    """Draw from the residual of ``p`` (V,) after ``q``."""
    cumulated = p.cumsum(-1)
    token = last = int(p.nonzero()[-1])
    for _ in range(PROPOSALS):
        uniform = random.random() * float(cumulated[-1])
        token = min(int(torch.searchsorted(cumulated, uniform, right=True)), last)
        if q is None or below(q(token), (1 - random.random()) * float(p[token])):
            break
    return token
