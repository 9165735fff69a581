"""Options of drafters with a vocabulary of their own."""

from dataclasses import dataclass

from tasc.options.bounds import MOST, MOST_NODES, Bounded, within


@dataclass(frozen=True)
class HeteroOptions(Bounded):
    """``lookahead``: draft tokens a step at most, 0 for what the budget takes. ``confidence``: a
    draft ends behind the token with which it becomes less likely than that (Mamou et al.).
    ``n``: order of the n-gram model where the drafter is none of a network. ``size``: a network
    scores that many of its tokens alone, the most frequent ones (FR-Spec), all for 0.
    """

    lookahead: int = within(0, 0, MOST_NODES)
    confidence: float = within(0.1, 0, 1)
    n: int = within(6, 1, 12)
    size: int = within(0, 0, MOST)


@dataclass(frozen=True)
class SlrsOptions(HeteroOptions):
    """``lookahead`` is the n of S_1: draft tokens that commit one target token at most.

    ``floor``: a segmentation less likely than that is not followed; 0 is Algorithm 3 as it is
    printed.
    ``nodes``: draft texts that a step may evaluate before it goes on with TLI.
    """

    floor: float = within(1e-3, 0, 1, below=True)
    nodes: int = within(96, 0, 2**14)
