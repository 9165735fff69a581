"""Random drafts and rows, and how to tell whether rounding may decide one of them."""

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

from tasc.decoding.core.draft import Draft, ProposalProbs
from tasc.decoding.core.sampling import Sampling

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
NEAR = 1e-5  # the documented tolerance of the kernels


@dataclass(frozen=True)
class Case:
    draft: Draft
    rows: torch.Tensor
    sampling: Sampling
    uniforms: np.ndarray

    def distribution(self, node: int, _path: object) -> torch.Tensor:
        return self.sampling.distribution(self.rows[node + 1])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A tree of likely tokens, its distributions, and logits with peaks and impossible tokens."""
    n, size = draw(st.integers(0, 10)), draw(st.sampled_from([2, 5, 40, 1500]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    parents = np.array([rng.integers(-1, i) if i else -1 for i in range(n)], np.int32)
    tokens = rng.integers(0, min(size + 1, 4), n).astype(np.int32)  # 2 of 2 is no token
    logits = rng.normal(0, draw(st.sampled_from([0.1, 2, 20])), (n + 1, size))
    logits[rng.random(logits.shape) < 0.1] = -np.inf
    logits[:, rng.integers(0, size)] = 1.5  # each row keeps a token
    rows = torch.from_numpy(logits).to(draw(st.sampled_from(DTYPES)))
    q = rng.dirichlet([0.3] * size, n + 1)
    q[rng.random(q.shape) < 0.1] = 0
    of = np.where(rng.random(n + 1) < 0.2, -1, np.arange(n + 1)).astype(np.int32)
    q /= np.maximum(q.sum(1, keepdims=True), 1e-30)
    q *= rng.choice([1.0, 0.7], (n + 1, 1))  # some of what may be drawn is no token
    distributions = ProposalProbs(torch.from_numpy(q.astype(np.float32)), of, draw(st.booleans()))
    draft = Draft(tokens, parents, distributions if draw(st.booleans()) else None)
    temperature = draw(st.sampled_from([0.3, 1.0, 2.5]))
    return Case(draft, rows, Sampling(temperature), rng.random(n + 1))


def nudged(case: Case, by: float) -> Case:
    """Return ``case`` with all random numbers moved: a result that changes hangs by a hair."""
    moved = np.clip(case.uniforms + by, 0, np.nextafter(1, 0))
    return Case(case.draft, case.rows, case.sampling, moved)
