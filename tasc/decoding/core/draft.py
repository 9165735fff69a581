"""The one draft type: a tree of proposed tokens in arrays."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tasc.errors import InputError

if TYPE_CHECKING:
    import torch


def _no_tokens() -> np.ndarray:
    return np.empty(0, np.int32)


@dataclass(frozen=True)
class ProposalProbs:
    """What sampled nodes were drawn from: one row for the children of a node, not one a node.

    ``probs`` (m, V) float32, on the target's device: distributions over the target's vocabulary,
    each summing to 1, or to less where some of what may be drawn is no token of the target. ``of``
    (n + 1,)
    int32: the children of node p were drawn from ``probs[of[p + 1]]``, and those of the last
    accepted token from ``rows[of[0]]``; -1 where children were chosen without randomness, or where
    nothing was drawn. A distribution without children says that what was drawn is no token.

    Siblings are in the order in which they were drawn: independently with ``replacement`` (a token
    may come twice), else each from what the ones before it left. How many there are must not depend
    on which tokens they are, or rejection sampling is no longer exact.
    """

    probs: "torch.Tensor"
    of: np.ndarray
    replacement: bool = True

    def __post_init__(self) -> None:
        """Refuse rows that are no matrix and names of rows that are not there."""
        if self.probs.dim() != 2 or str(self.probs.dtype) != "torch.float32":
            raise InputError(
                f"the distributions of a draft must be a float32 matrix, got {self.probs.dtype} of "
                f"shape {tuple(self.probs.shape)}"
            )
        if self.of.dtype != np.int32 or ((self.of < -1) | (self.of >= len(self.probs))).any():
            raise InputError(
                f"the distribution of a node must be int32, from 0 to {len(self.probs) - 1}, or "
                f"-1 for none, got {self.of.dtype} {self.of.tolist()}"
            )


# the probability of a token as ever closer bounds (low, high), equal in the end
Bounds = Callable[[int], Iterator[tuple[float, float]]]


@dataclass(frozen=True)
class LazyProposal:
    """Distributions too large to compute: a verifier asks for one token's probability at a time.

    Node i of a chain was drawn from ``distributions[i]``; one distribution more says that what was
    drawn last is no token.
    """

    distributions: Sequence[Bounds]


@dataclass(frozen=True)
class Draft:
    """A tree of proposed tokens in the target's vocabulary.

    ``tokens`` (n,) int32; ``parents`` (n,) int32: node i continues node ``parents[i]`` < i, and -1
    is the last accepted token. A chain has parents -1, 0, 1, …; no nodes at all is plain decoding.
    ``q`` tells what nodes were drawn from; without it they count as certain.
    ``probabilities`` (n,) float32, where the drafter knows them: of the path from the last token
    through each node.
    """

    tokens: np.ndarray = field(default_factory=_no_tokens)
    parents: np.ndarray = field(default_factory=_no_tokens)
    q: ProposalProbs | LazyProposal | None = None
    probabilities: np.ndarray | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse a tree whose parents do not precede their children."""
        if self.tokens.dtype != np.int32 or self.parents.dtype != np.int32:
            raise InputError(
                f"a draft holds int32 arrays, got {self.tokens.dtype} and {self.parents.dtype}"
            )
        n = len(self.tokens)
        if len(self.parents) != n:
            raise InputError(f"a draft of {n} tokens needs {n} parents, got {len(self.parents)}")
        if n == 0 and self.q is None:
            return  # plain decoding comes by here at every token
        if self.probabilities is not None and len(self.probabilities) != n:
            raise InputError(
                f"a draft of {n} tokens needs {n} probabilities, got {len(self.probabilities)}"
            )
        bad = (self.parents < -1) | (self.parents >= np.arange(n, dtype=np.int32))
        if bad.any():
            i = int(bad.argmax())
            raise InputError(
                f"draft node {i} has parent {self.parents[i]}: name -1 or an earlier node"
            )
        if isinstance(self.q, LazyProposal):
            if len(self.q.distributions) not in (n, n + 1):
                raise InputError(
                    f"a chain of {n} tokens needs {n} or {n + 1} distributions, got "
                    f"{len(self.q.distributions)}"
                )
        elif self.q is not None and len(self.q.of) != n + 1:
            raise InputError(
                f"a draft of {n} tokens names {n + 1} distributions, got {len(self.q.of)}"
            )

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.tokens)

    def children(self, node: int) -> list[int]:
        """Return the nodes that continue ``node``, in order."""
        found: list[int] = np.flatnonzero(self.parents == node).tolist()
        return found

    def subtree(self, nodes: np.ndarray) -> "Draft":
        """Return the tree of ``nodes`` (m,) int32, ascending, each with its parent among them."""
        if len(nodes) in (0, len(self)):
            return self if len(nodes) else Draft()
        position = np.full(len(self) + 1, -1, np.int32)  # the extra entry maps parent -1 to -1
        position[nodes] = np.arange(len(nodes), dtype=np.int32)
        paths = None if self.probabilities is None else self.probabilities[nodes]
        return Draft(self.tokens[nodes], position[self.parents[nodes]], probabilities=paths)


def chain(
    tokens: np.ndarray,
    q: "torch.Tensor | LazyProposal | None" = None,
    probabilities: np.ndarray | None = None,
) -> Draft:
    """Return the draft in which each of ``tokens`` (n,) int32 continues the one before it.

    ``q`` are the distributions they were drawn from, if they were: as rows (n, V) float32, and one
    more where what was drawn last is no token, or as those that are requested. ``probabilities``
    as in Draft.
    """
    n = len(tokens)
    if q is None or isinstance(q, LazyProposal):
        drawn_from: ProposalProbs | LazyProposal | None = q
    else:
        of = np.arange(n + 1, dtype=np.int32)
        of[len(q) :] = -1
        drawn_from = ProposalProbs(q, of)
    parents = np.arange(-1, n - 1, dtype=np.int32)
    return Draft(tokens, parents, drawn_from, probabilities=probabilities)
