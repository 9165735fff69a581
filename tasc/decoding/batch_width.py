"""The number of nodes that every sequence of a batch drafts.

A forward pads all drafts of a batch to the largest one, so all sequences pay for one large draft.
The width is therefore chosen for the batch: the one that commits the most tokens per second, given
how many nodes of recent drafts were accepted.
"""

import numpy as np

from tasc.decoding.core.draft import Draft

MOST_NODES = 64
DECAY = 0.99  # of the counts, per draft
EVERY = 16  # steps between wider drafts, without which larger widths would stay unknown
FIRST = 8  # nodes, while nothing is known
_TOO_MUCH = 1e9  # seconds


class BatchWidth:
    """The width of a batch's drafts."""

    def __init__(self) -> None:
        self.accepted = np.zeros(MOST_NODES + 1)  # [n]: accepted among the first n nodes, decayed
        self.drafts = np.zeros(MOST_NODES + 1)  # [n]: drafts of up to n nodes, decayed
        self.steps, self.width = 0, FIRST

    def begin(self, seconds: np.ndarray) -> None:
        """Choose the width of a step; ``seconds`` (65,): of a step of n nodes per sequence."""
        self.steps += 1
        known = self.drafts > 1
        if not known.any():
            return
        mean = np.where(known, self.accepted / np.maximum(self.drafts, 1), 0)
        self.width = int(np.argmax((1 + np.maximum.accumulate(mean)) / seconds))
        if self.steps % EVERY == 0:
            self.width = min(self.width + self.width // 2 + 1, MOST_NODES)

    @property
    def price(self) -> np.ndarray:
        """Seconds that n nodes cost, (65,): nothing up to the width, too much beyond it."""
        return np.where(np.arange(MOST_NODES + 1) <= self.width, 0.0, _TOO_MUCH)

    def record(self, draft: Draft, max_nodes: int, tokens: np.ndarray) -> None:
        """Count the nodes of ``draft`` that the committed ``tokens`` (k,) accept.

        If the draft has fewer than ``max_nodes`` nodes, more would not have been accepted.
        """
        size = max(len(draft), max_nodes) + 1
        self.accepted[:size] *= DECAY
        self.drafts[:size] = DECAY * self.drafts[:size] + 1
        for node in draft.path_of(tokens):
            self.accepted[node + 1 : size] += 1
