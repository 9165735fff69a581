"""Plain autoregressive decoding: a drafter without drafts."""

from dataclasses import dataclass

import numpy as np

from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import NO_NEEDS, Factory
from tasc.decoding.core.resources import Resources


@dataclass(frozen=True)
class NoOptions:
    """The options of a method that has none."""


def prepare(resources: Resources, options: NoOptions) -> Factory:  # noqa: ARG001
    """Prepare plain decoding."""
    return Autoregressive


@dataclass(frozen=True)
class ChoicesOptions:
    """The options of ``choices``."""

    prune: bool = True  # score only labels that can still win, in several small forwards
    calibrate: bool = False  # correct each label's probability by training rows; scores all labels


def choices(resources: Resources, options: ChoicesOptions) -> Factory:  # noqa: ARG001
    """Prepare a method without drafts; ``tasc.decoding.choices`` decodes."""
    return Autoregressive


class Autoregressive:
    """The baseline, in the same loop as every other method."""

    needs = NO_NEEDS

    def start(self, prompt: np.ndarray) -> None:
        pass

    def draft(self, max_nodes: int) -> Draft:  # noqa: ARG002 - the protocol's name
        return Draft()

    def observe(self, tokens: np.ndarray) -> None:
        pass
