"""From what a drafter claims to what is accepted: recent acceptance corrects its probabilities."""

import numpy as np

from tasc.backend.tree import greedy_walk, tree_inputs
from tasc.spec.draft import Draft

BINS = 16
MOST_NODES = 64  # nodes of higher rank share the statistics of the last
STRENGTH = 2.0  # observations that a claim is worth
DECAY = 0.98  # of what was observed, a step
UNKNOWN = 0.6  # claimed for a drafter without probabilities: node r is accepted 0.6 ** (r + 1)


class Shape:
    """A draft with what estimating and learning both need: who descends from whom, and depths."""

    def __init__(self, draft: Draft) -> None:
        """Look at ``draft``."""
        self.draft = draft
        self.seen, self.depths = tree_inputs(draft.parents)  # row and column 0: the last token


class Calibration:
    """How probable it is that each node of a draft is accepted.

    Drafts with probabilities: the claimed probability of a node given its parent is corrected by
    how often such claims came true where the parent was accepted. One misleading guess that all
    deeper nodes hang on thus counts as one. Drafts without: acceptance by node rank.
    """

    def __init__(self) -> None:
        """Begin by trusting claims."""
        self.claims, self.ranks = _Counts(BINS), _Counts(MOST_NODES)

    def estimate(self, shape: Shape) -> np.ndarray:
        """Return for each node (n,) float64 the probability that it is accepted."""
        given = shape.draft.probabilities
        if given is None:
            ranks = _ranks(len(shape.draft))
            return self.ranks.rates(ranks, UNKNOWN ** (ranks + 1.0))
        own = _given_parent(given, shape.draft.parents)
        logs = np.log(np.maximum(self.claims.rates(_bins(own), own), 1e-9))
        path: np.ndarray = np.exp(shape.seen[1:, 1:].astype(np.float64) @ logs)
        return path

    def learn(self, shape: Shape, settled: np.ndarray) -> None:
        """Compare the draft with the tokens ``settled`` (k,) int32 that came after it.

        Nodes deeper than what was settled say nothing yet and are left out.
        """
        draft, path = shape.draft, follow(shape, settled)
        accepted = np.zeros(len(draft) + 1)  # 0: the last token, which all drafts continue
        accepted[0] = 1
        accepted[path + 1] = 1
        if draft.probabilities is None:
            known = np.ones(len(draft), np.bool_)
            if len(path) == len(settled):
                known = ~shape.seen[1:, path[-1] + 1] | (shape.depths[1:] <= len(settled))
            self.ranks.add(_ranks(len(draft))[known], accepted[1:][known])
        else:
            known = (accepted[draft.parents + 1] > 0) & (shape.depths[1:] <= len(settled))
            own = _given_parent(draft.probabilities, draft.parents)
            self.claims.add(_bins(own[known]), accepted[1:][known])


def follow(shape: Shape, settled: np.ndarray) -> np.ndarray:
    """Return the nodes (m,) int32, root to leaf, that spell the beginning of ``settled``."""
    said = np.full(max(int(shape.depths.max()), len(settled)) + 1, -1, np.int32)
    said[: len(settled)] = settled
    path: np.ndarray = greedy_walk(shape.draft.tokens, shape.draft.parents, said[shape.depths])
    return path


class _Counts:
    """Decayed counts of trials and successes in bins."""

    def __init__(self, bins: int) -> None:
        self.tried, self.accepted = np.zeros(bins), np.zeros(bins)

    def rates(self, bins: np.ndarray, claimed: np.ndarray) -> np.ndarray:
        """Mean of the claims, worth STRENGTH trials, and the trials of each bin."""
        mixed: np.ndarray = (self.accepted[bins] + STRENGTH * claimed) / (
            self.tried[bins] + STRENGTH
        )
        return mixed

    def add(self, bins: np.ndarray, accepted: np.ndarray) -> None:
        size = len(self.tried)
        self.tried = DECAY * self.tried + np.bincount(bins, minlength=size)
        self.accepted = DECAY * self.accepted + np.bincount(bins, accepted, minlength=size)


def _ranks(n: int) -> np.ndarray:
    return np.minimum(np.arange(n), MOST_NODES - 1)


def _bins(probabilities: np.ndarray) -> np.ndarray:
    return np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)


def _given_parent(path: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """From path probabilities to those of each node given its parent."""
    before = np.append(path, 1.0)[parents]  # parent -1 finds the appended one
    own: np.ndarray = np.clip(path / np.maximum(before, 1e-9), 0.0, 1.0)
    return own
