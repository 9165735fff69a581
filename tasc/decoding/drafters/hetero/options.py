"""Options of drafters with their own vocabulary."""

from dataclasses import dataclass

from tasc.options.bounds import MOST, MOST_NODES, Bounded, within


@dataclass(frozen=True)
class HeteroOptions(Bounded):
    """``lookahead``: maximum number of draft tokens per step, 0 for no limit but the budget.
    ``confidence``: a draft ends once its probability falls below this (Mamou et al.). ``n``: order
    of the n-gram model, without a draft model. ``size``: number of most frequent tokens that a
    draft model scores (FR-Spec), 0 for all.
    """

    lookahead: int = within(0, 0, MOST_NODES)
    confidence: float = within(0.1, 0, 1)
    n: int = within(6, 1, 12)
    size: int = within(0, 0, MOST)


@dataclass(frozen=True)
class SlrsOptions(HeteroOptions):
    """``lookahead`` is the n of S_1: maximum number of draft tokens for one target token.

    ``floor``: a less likely segmentation that has not committed a token gives none; 0 is Algorithm
    3 as printed.
    ``nodes``: number of draft texts that a step may evaluate before it continues with TLI.
    """

    floor: float = within(1e-3, 0, 1, below=True)
    nodes: int = within(96, 0, 2**14)
