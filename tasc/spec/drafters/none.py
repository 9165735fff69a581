"""Plain autoregressive decoding: the drafter that proposes nothing."""

import numpy as np

from tasc.spec.draft import Draft


class Autoregressive:
    """The baseline every other method is compared with, on the same loop."""

    def start(self, prompt: np.ndarray) -> None:
        """Nothing to prepare."""

    def draft(self, budget: int) -> Draft:  # noqa: ARG002 - the protocol's name
        """Propose nothing."""
        return Draft()

    def observe(self, tokens: np.ndarray) -> None:
        """Nothing to learn."""
