"""Verification of a draft tree in plain torch: the reference for testing the kernels.

``distribution(node, path)`` returns the target's distribution (V,) after ``node`` (-1: after the
last token), once the nodes of ``path`` are accepted. Random numbers are arguments, so that results
are repeatable.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from tasc.decoding.core.draft import Draft, ProposalProbs

Distribution = Callable[[int, Sequence[int]], torch.Tensor]
Verified = tuple[np.ndarray, int]

# A smaller mass is rounding error, and its normalised distribution means nothing.
NOTHING = 1e-9


def follow(draft: Draft, choose: Callable[[int, Sequence[int]], int]) -> Verified:
    """Choose a token at each node and follow the first child that proposes it.

    With a deterministic choice this is greedy verification. With a draw from the target it is
    exact if the draft does not depend on that draw.
    """
    node, path = -1, list[int]()
    while True:
        token = choose(node, path)
        hits = [child for child in draft.children(node) if draft.tokens[child] == token]
        if not hits:
            return np.array(path, np.int32), token
        node = hits[0]
        path.append(node)


def coupled_reference(draft: Draft, distribution: Distribution, uniforms: np.ndarray) -> Verified:
    """Draw from the target with ``uniforms[node + 1]``, (n + 1,) float64 in [0, 1), and follow."""
    return follow(
        draft, lambda node, path: pick(distribution(node, path), float(uniforms[node + 1]))
    )


def rejection_reference(draft: Draft, distribution: Distribution, uniforms: np.ndarray) -> Verified:
    """Accept a child with probability p / q, else continue with the residual of p.

    Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", algorithm 1, on a
    chain; Miao et al., "SpecInfer", section 4.3, on a tree: after a rejected child, the normalised
    max(p - q, 0) serves its siblings and finally the bonus token. ``uniforms`` (n + 1,) float64 in
    [0, 1): entry i decides node i, the last entry draws the bonus token.
    """
    node, path = -1, list[int]()
    while True:
        p = distribution(node, path).double()
        accepted, p = _try_children(draft, node, p, uniforms)
        if accepted is None:
            return np.array(path, np.int32), pick(p, float(uniforms[-1]))
        node = accepted
        path.append(node)


def _try_children(
    draft: Draft, node: int, p: torch.Tensor, uniforms: np.ndarray
) -> tuple[int | None, torch.Tensor]:
    """Return the accepted child, or None and the residual of ``p`` (V,) after all of them."""
    distributions = draft.q if isinstance(draft.q, ProposalProbs) else None
    row = -1 if distributions is None else int(distributions.of[node + 1])
    seen: list[int] = []
    children = draft.children(node)
    if distributions is not None and row >= 0 and not children:  # the draw was not a token
        return None, _residual(p, distributions.probs[row].double().clamp(min=0).to(p.device))
    for child in children:
        token = int(draft.tokens[child])
        if not 0 <= token < len(p):
            continue  # not a token of the target
        q = _proposal(distributions, row, token, seen, len(p)).to(p.device)
        seen.append(token)
        if not q[token] > 0:
            continue  # its own distribution cannot have drawn it
        if uniforms[child] * float(q[token]) < float(p[token]):
            return child, p
        p = _residual(p, q)
    return None, p


def _residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Return max(p - q, 0), normalised; ``p`` itself if both are equal except for rounding."""
    rest = (p - q).clamp(min=0)
    return rest / rest.sum() if float(rest.sum()) > NOTHING else p


def _proposal(
    distributions: ProposalProbs | None, row: int, token: int, seen: Sequence[int], size: int
) -> torch.Tensor:
    """Return the distribution (V,) float64 that ``token`` was drawn from after ``seen``."""
    if distributions is None or row < 0:
        certain = torch.zeros(size, dtype=torch.float64)
        certain[token] = 1
        return certain
    q = distributions.probs[row].double().clamp(min=0)
    if distributions.replacement or not seen:
        return q
    others = q.clone()
    others[list(seen)] = 0
    # Subtract from 1, because the row may also have mass outside of the target's tokens.
    left = 1 - float((q - others).sum())
    return others / left if left > NOTHING else torch.zeros_like(q)


def pick(distribution: torch.Tensor, uniform: float) -> int:
    """Return the first id whose cumulative probability exceeds ``uniform`` times the total."""
    cumulated = distribution.double().cumsum(-1)
    at = int(torch.searchsorted(cumulated, uniform * cumulated[-1], right=True))
    # Rounding may lead past the last id with any mass.
    return min(at, int(distribution.nonzero()[-1]))
