"""A drafter around a native one."""

import numpy as np

from tasc._native import LookupDrafter, SuffixDrafter
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import NO_NEEDS


class NativeDrafter:
    """One sequence's drafter; all work is native."""

    needs = NO_NEEDS

    def __init__(self, native: LookupDrafter | SuffixDrafter) -> None:
        self.native = native

    def start(self, prompt: np.ndarray) -> None:
        self.native.start(prompt)

    def draft(self, max_nodes: int) -> Draft:
        """Return the tree of at most ``max_nodes`` nodes with the most probable paths."""
        tokens, parents, probabilities = self.native.draft(max_nodes)
        return Draft(tokens, parents, probabilities=probabilities)

    def observe(self, tokens: np.ndarray) -> None:
        self.native.observe(tokens)
