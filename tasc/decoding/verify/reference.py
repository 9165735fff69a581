"""Verification of a draft tree in plain torch: the reference that the kernels are tested against.

``distribution(node, path)`` gives the target's distribution (V,) after ``node`` (-1: after the last
token), which is reached by accepting the nodes of ``path``. Random numbers come in, so it can
be repeated.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from tasc.decoding.core.draft import Draft, ProposalProbs

Distribution = Callable[[int, Sequence[int]], torch.Tensor]
Verified = tuple[np.ndarray, int]

# Less of a distribution than this is rounding: what it would be normalised to means nothing.
NOTHING = 1e-9


def follow(draft: Draft, choose: Callable[[int, Sequence[int]], int]) -> Verified:
    """Choose a token at each node and follow the first child that proposes it.

    With a deterministic choice this is greedy verification; with a draw from the target it is
    exact for drafts that were made without regard to that draw.
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
    """Accept children with probability p / q, else go on with the residual of p.

    Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", algorithm 1, on a
    chain; Miao et al., "SpecInfer", section 4.3, on a tree: a child that is turned down leaves
    max(p - q, 0), normalised, to its siblings and at last to the bonus token. ``uniforms`` (n + 1,)
    float64 in [0, 1): entry i tries node i, the last one draws the bonus token.
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
    """Return the accepted child, or None and what all of them left of ``p`` (V,)."""
    distributions = draft.q if isinstance(draft.q, ProposalProbs) else None
    row = -1 if distributions is None else int(distributions.of[node + 1])
    seen: list[int] = []
    children = draft.children(node)
    if distributions is not None and row >= 0 and not children:  # what was drawn is no token
        return None, _residual(p, distributions.probs[row].double().clamp(min=0).to(p.device))
    for child in children:
        token = int(draft.tokens[child])
        if not 0 <= token < len(p):
            continue  # the target cannot say it
        q = _proposal(distributions, row, token, seen, len(p)).to(p.device)
        seen.append(token)
        if not q[token] > 0:
            continue  # its own distribution could not have drawn it: it says nothing
        if uniforms[child] * float(q[token]) < float(p[token]):
            return child, p
        p = _residual(p, q)
    return None, p


def _residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Return what ``q`` leaves of ``p`` (V,), normalised.

    Where nothing is left p and q are equal but for rounding; then p stays.
    """
    rest = (p - q).clamp(min=0)
    return rest / rest.sum() if float(rest.sum()) > NOTHING else p


def _proposal(
    distributions: ProposalProbs | None, row: int, token: int, seen: Sequence[int], size: int
) -> torch.Tensor:
    """Return what ``token`` was drawn from after its siblings ``seen``, (V,) float64."""
    if distributions is None or row < 0:
        certain = torch.zeros(size, dtype=torch.float64)
        certain[token] = 1
        return certain
    q = distributions.probs[row].double().clamp(min=0)
    if distributions.replacement or not seen:
        return q
    others = q.clone()
    others[list(seen)] = 0
    # Of all mass, also of what is no token of the target, which may as well have been drawn.
    left = 1 - float((q - others).sum())
    return others / left if left > NOTHING else torch.zeros_like(q)


def pick(distribution: torch.Tensor, uniform: float) -> int:
    """Return the id at which the cumulated (V,) probabilities exceed ``uniform`` of their sum."""
    cumulated = distribution.double().cumsum(-1)
    at = int(torch.searchsorted(cumulated, uniform * cumulated[-1], right=True))
    # Rounding may lead past the end: then it is the last id with any mass.
    return min(at, int(distribution.nonzero()[-1]))
