"""Plain autoregressive decoding: the drafter that proposes nothing."""

from dataclasses import dataclass

import numpy as np

from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Factory
from tasc.decoding.core.resources import Resources


@dataclass(frozen=True)
class NoOptions:
    """For methods without options."""


def prepare(resources: Resources, options: NoOptions) -> Factory:  # noqa: ARG001
    """See Method.prepare."""
    return Autoregressive


class Autoregressive:
    """The baseline every other method is compared with, on the same loop."""

    def start(self, prompt: np.ndarray) -> None:
        """Nothing to prepare."""

    def draft(self, max_nodes: int) -> Draft:  # noqa: ARG002 - the protocol's name
        """Propose nothing."""
        return Draft()

    def observe(self, tokens: np.ndarray) -> None:
        """Nothing to learn."""
