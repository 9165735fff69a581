"""Rejection sampling, for drafts that carry the distributions they were drawn from."""

import numpy as np
import torch

from tasc.decoding.core.draft import Draft, LazyProposal
from tasc.decoding.core.protocols import Adjust
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.verify import ops
from tasc.decoding.verify.exact import target_distribution
from tasc.decoding.verify.lazy import verify_lazy
from tasc.decoding.verify.reference import Verified, rejection_reference
from tasc.errors import InputError


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
        q = draft.q
        if isinstance(q, LazyProposal):
            distribution = target_distribution(draft, logits, self.sampling, adjust)
            return verify_lazy(draft, q, distribution, self.random)
        if q is not None and q.probs.shape[1] != logits.shape[1]:
            raise InputError(
                f"the draft's distributions cover {q.probs.shape[1]} tokens, the target's "
                f"{logits.shape[1]}: project them onto the target's vocabulary"
            )
        uniforms = self.random.random(len(draft) + 1)
        if adjust is not None or self.sampling.cuts or not ops.available(logits):
            return rejection_reference(
                draft, target_distribution(draft, logits, self.sampling, adjust), uniforms
            )
        distributions = (
            logits.new_empty((0, logits.shape[1]), dtype=torch.float32) if q is None else q.probs
        )
        of = np.full(len(draft) + 1, -1, np.int32) if q is None else q.of
        return ops.run(
            ops.REJECTION,
            logits,
            draft.tokens,
            draft.parents,
            distributions,
            of,
            q is None or q.replacement,
            self.sampling.temperature,
            uniforms,
        )


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
