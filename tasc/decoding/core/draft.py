"""A draft: a tree of proposed tokens in arrays."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tasc.errors import InputError

if TYPE_CHECKING:
    import torch

# the probability of a token as ever tighter bounds (low, high), which end up equal
Bounds = Callable[[int], Iterator[tuple[float, float]]]


@dataclass(frozen=True)
class ProposalProbs:
    """The distributions of sampled nodes, one per parent.

    ``probs`` (m, V) float32, on the target's device: distributions over the target's vocabulary.
    Each sums to 1, or to less if the drafter may draw strings that are no token of the target.
    ``of`` (n + 1,) int32: the children of node p were drawn from ``probs[of[p + 1]]``, and the
    children of the last accepted token from ``probs[of[0]]``; -1 if nothing was drawn. A
    distribution without children means that the drawn string is no token.

    Siblings are in the order of drawing: independent with ``replacement`` (tokens may repeat),
    otherwise each from the remaining tokens. Their number must not depend on which tokens they are,
    or rejection sampling is no longer exact.
    """

    probs: "torch.Tensor"
    of: np.ndarray
    replacement: bool = True

    def check(self, n: int) -> None:
        """Raise InputError if these are not the distributions of a draft of ``n`` nodes."""
        if len(self.of) != n + 1:
            raise InputError(
                f"a draft of {n} tokens needs {n + 1} distribution indexes, got {len(self.of)}"
            )

    def __post_init__(self) -> None:
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


@dataclass(frozen=True)
class LazyProposal:
    """Distributions too large to compute: a verifier reads the probability of one token at a time.

    Node i of a chain was drawn from ``distributions[i]``. One extra distribution means that the
    last drawn string is no token.
    """

    distributions: Sequence[Bounds]

    def check(self, n: int) -> None:
        """Raise InputError if these are not the distributions of a chain of ``n`` nodes."""
        if len(self.distributions) not in (n, n + 1):
            raise InputError(
                f"a chain of {n} tokens needs {n} or {n + 1} distributions, got "
                f"{len(self.distributions)}"
            )


@dataclass(frozen=True)
class Draft:
    """A tree of proposed tokens in the target's vocabulary.

    ``tokens`` (n,) int32; ``parents`` (n,) int32: node i continues node ``parents[i]`` < i, and -1
    is the last accepted token. A chain has parents -1, 0, 1, …; no nodes is plain decoding. ``q``:
    the distributions that nodes were drawn from; without it they count as certain.
    ``probabilities`` (n,) float32, if the drafter knows them: of the path to each node.
    """

    tokens: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    parents: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    q: ProposalProbs | LazyProposal | None = None
    probabilities: np.ndarray | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.tokens.dtype != np.int32 or self.parents.dtype != np.int32:
            raise InputError(
                f"a draft needs int32 arrays, got {self.tokens.dtype} and {self.parents.dtype}"
            )
        n = len(self.tokens)
        if len(self.parents) != n:
            raise InputError(f"a draft of {n} tokens needs {n} parents, got {len(self.parents)}")
        if n == 0 and self.q is None:
            return  # the fast path of plain decoding
        if self.probabilities is not None and len(self.probabilities) != n:
            raise InputError(
                f"a draft of {n} tokens needs {n} probabilities, got {len(self.probabilities)}"
            )
        bad = (self.parents < -1) | (self.parents >= np.arange(n, dtype=np.int32))
        if bad.any():
            i = int(bad.argmax())
            raise InputError(
                f"draft node {i} has parent {self.parents[i]}: use -1 or an earlier node"
            )
        if self.q is not None:
            self.q.check(n)

    def __len__(self) -> int:
        return len(self.tokens)

    def children(self, node: int) -> list[int]:
        nodes: list[int] = np.flatnonzero(self.parents == node).tolist()
        return nodes

    def path_of(self, tokens: np.ndarray) -> list[int]:
        """Return the nodes, from the root on, that spell the first of ``tokens`` (k,) int32."""
        path: list[int] = []
        for token in tokens.tolist():
            parent = path[-1] if path else -1
            matching = np.flatnonzero((self.parents == parent) & (self.tokens == token))
            if not len(matching):
                break
            path.append(int(matching[0]))
        return path

    def first_children(self) -> list[int]:
        path: list[int] = []
        last = -1
        for node, parent in enumerate(self.parents.tolist()):  # parents precede their children
            if parent == last:
                path.append(node)
                last = node
        return path

    def subtree(self, nodes: np.ndarray) -> "Draft":
        """Return the tree of ``nodes`` (m,) int32, ascending, each with its parent among them."""
        if len(nodes) in (0, len(self)):
            return self if len(nodes) else Draft()
        position = np.full(len(self) + 1, -1, np.int32)  # the extra entry maps parent -1 to -1
        position[nodes] = np.arange(len(nodes), dtype=np.int32)
        paths = None if self.probabilities is None else self.probabilities[nodes]
        return Draft(self.tokens[nodes], position[self.parents[nodes]], probabilities=paths)

    def best_chain(self) -> "Draft":
        """Return one path of the tree, for targets that cannot score trees.

        It has the largest expected number of accepted tokens, by ``probabilities``; without them it
        is the longest. Of sampled nodes it is the path of first children, which any verifier
        accepts with the right probability, as it does not depend on which tokens they are.
        """
        if len(self) == 0 or (self.parents == np.arange(-1, len(self) - 1)).all():
            return self
        path = self.first_children() if self.q is not None else self._best_path()
        nodes = np.array(path, np.int32)
        q: ProposalProbs | None = None
        if isinstance(self.q, ProposalProbs):
            q = replace(self.q, of=self.q.of[np.append(np.int32(0), nodes + 1)])
        paths = None if self.probabilities is None else self.probabilities[nodes]
        parents = np.arange(-1, len(nodes) - 1, dtype=np.int32)
        return Draft(self.tokens[nodes], parents, q, probabilities=paths)

    def _best_path(self) -> list[int]:
        weights = np.ones(len(self)) if self.probabilities is None else self.probabilities
        sums = np.zeros(len(self) + 1)  # the extra entry is the root's
        for node, parent in enumerate(self.parents.tolist()):
            sums[node] = sums[parent] + weights[node]
        path = [int(sums[:-1].argmax())]
        while (parent := int(self.parents[path[-1]])) >= 0:
            path.append(parent)
        return path[::-1]


def chain(
    tokens: np.ndarray,
    q: "torch.Tensor | ProposalProbs | LazyProposal | None" = None,
    probabilities: np.ndarray | None = None,
) -> Draft:
    """Return the draft in which each of ``tokens`` (n,) int32 continues the one before it.

    ``q``: the distributions they were drawn from, as in Draft or as rows (n, V) float32, with one
    more if the last drawn string is no token. ``probabilities`` as in Draft.
    """
    n = len(tokens)
    if q is not None and not isinstance(q, ProposalProbs | LazyProposal):
        of = np.arange(n + 1, dtype=np.int32)
        of[len(q) :] = -1
        q = ProposalProbs(q, of)
    return Draft(tokens, np.arange(-1, n - 1, dtype=np.int32), q, probabilities=probabilities)
