"""How many nodes each sequence of a batch drafts, where a forward is as wide as its widest draft.

A forward of B sequences pads all drafts to the largest one, so what one sequence adds is paid for
by all. The width is therefore chosen for the batch: the one at which the tokens that a step commits
are most for its time, as drafts of that many nodes were accepted lately.
"""

import numpy as np

from tasc.decoding.core.draft import Draft

MOST_NODES = 64
DECAY = 0.99  # of what was accepted, a draft
EVERY = 16  # steps from one wider draft to the next: what is never tried is never known
FIRST = 8  # nodes, while nothing is known
_TOO_MUCH = 1e9  # seconds


class Joint:
    """The width of a batch's drafts."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.accepted = np.zeros(MOST_NODES + 1)  # [n]: of the first n nodes of a draft, decayed
        self.drafts = np.zeros(MOST_NODES + 1)  # [n]: drafts of which so many were asked, likewise
        self.steps, self.width = 0, FIRST

    def begin(self, seconds: np.ndarray) -> None:
        """Choose the width of a step by ``seconds`` (65,) of a step of n nodes a sequence."""
        self.steps += 1
        known = self.drafts > 1
        if not known.any():
            return
        each = np.where(known, self.accepted / np.maximum(self.drafts, 1), 0)
        self.width = int(np.argmax((1 + np.maximum.accumulate(each)) / seconds))
        if self.steps % EVERY == 0:
            self.width = min(self.width + self.width // 2 + 1, MOST_NODES)

    @property
    def price(self) -> np.ndarray:
        """Seconds that n nodes cost, (65,): nothing up to the width, too much beyond it."""
        return np.where(np.arange(MOST_NODES + 1) <= self.width, 0.0, _TOO_MUCH)

    def learn(self, draft: Draft, asked: int, tokens: np.ndarray) -> None:
        """Enter what the committed ``tokens`` (k,) accepted of a draft.

        Where it has fewer nodes than were ``asked``, more would not have been accepted.
        """
        size = max(len(draft), asked) + 1
        self.accepted[:size] *= DECAY
        self.drafts[:size] = DECAY * self.drafts[:size] + 1
        node = -1
        for token in tokens.tolist():
            found = np.flatnonzero((draft.parents == node) & (draft.tokens == token))
            if not len(found):
                return
            node = int(found[0])
            self.accepted[node + 1 : size] += 1
