"""Rejection sampling: for drafts that carry the laws they were drawn from."""

import numpy as np
import torch

from tasc.decoding.core.draft import AskedLaws, Draft
from tasc.decoding.core.protocols import Adjust
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.verify import ops
from tasc.decoding.verify.asked import asked_walk
from tasc.decoding.verify.exact import target_law
from tasc.decoding.verify.walks import Walked, rejection_walk
from tasc.errors import InputError


class MultiBranch:
    """Multi-branch rejection sampling on a tree (Miao et al., "SpecInfer", section 4.3).

    Siblings that were drawn without replacement, as in EAGLE (Li et al.), are told apart by
    ``Laws.replacement``. A child without a law counts as certain and is accepted with the target's
    probability: exact wherever it came from, and less often than with the law it was drawn from.
    """

    def __init__(self, sampling: Sampling) -> None:
        """Start the random numbers of one sequence."""
        self.sampling = sampling
        self.random = np.random.default_rng(sampling.seed)

    def __call__(self, draft: Draft, rows: torch.Tensor, adjust: Adjust | None = None) -> Walked:
        """Verify one step; see Verifier."""
        q = draft.q
        if isinstance(q, AskedLaws):
            law = target_law(draft, rows, self.sampling, adjust)
            return asked_walk(draft, q, law, self.random)
        if q is not None and q.rows.shape[1] != rows.shape[1]:
            raise InputError(
                f"the draft's laws cover {q.rows.shape[1]} tokens, the target's {rows.shape[1]}: "
                "project them on the target's vocabulary"
            )
        uniforms = self.random.random(len(draft) + 1)
        if adjust is not None or self.sampling.cuts or not ops.available(rows):
            return rejection_walk(draft, target_law(draft, rows, self.sampling, adjust), uniforms)
        laws = rows.new_empty((0, rows.shape[1]), dtype=torch.float32) if q is None else q.rows
        of = np.full(len(draft) + 1, -1, np.int32) if q is None else q.of
        return ops.run(
            ops.REJECTION,
            rows,
            draft.tokens,
            draft.parents,
            laws,
            of,
            q is None or q.replacement,
            self.sampling.temperature,
            uniforms,
        )


class Rejection:
    """Rejection sampling on a chain (Leviathan et al., algorithm 1): accept with min(1, p / q)."""

    def __init__(self, sampling: Sampling) -> None:
        """Start the random numbers of one sequence."""
        self.walk = MultiBranch(sampling)

    def __call__(self, draft: Draft, rows: torch.Tensor, adjust: Adjust | None = None) -> Walked:
        """Verify one step; see Verifier. Raises InputError for a tree that branches."""
        if (draft.parents != np.arange(-1, len(draft) - 1)).any():
            raise InputError(
                f"rejection sampling verifies chains, got parents {draft.parents.tolist()}: "
                "use the multi-branch verifier"
            )
        return self.walk(draft, rows, adjust)
