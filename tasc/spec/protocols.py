"""What a drafter is. One object serves one sequence; its constructor takes what they share."""

from typing import Protocol

import numpy as np

from tasc.spec.draft import Draft


class Drafter(Protocol):
    """Proposes tokens; never decides. Any draft is lossless, a good one is fast."""

    def start(self, prompt: np.ndarray) -> None:
        """Forget the last sequence and read ``prompt`` (L,) int32. Called once a sequence."""

    def draft(self, budget: int) -> Draft:
        """Propose at most ``budget`` nodes after what was observed; changes nothing."""

    def observe(self, tokens: np.ndarray) -> None:
        """Learn the tokens (k,) int32 that a step settled: accepted path and bonus token."""
