"""Options of drafters with a vocabulary of their own."""

from dataclasses import dataclass

from tasc.errors import InputError


@dataclass(frozen=True)
class HeteroOptions:
    """``lookahead``: draft tokens a step at most, 0 for what the budget takes. ``confidence``: a
    draft ends behind the token with which it becomes less likely than that (Mamou et al.).
    ``n``: order of the n-gram model where the drafter is none of a network. ``size``: a network
    scores that many of its tokens alone, the most frequent ones (FR-Spec), all for 0.
    """

    lookahead: int = 0
    confidence: float = 0.1
    n: int = 6
    size: int = 0

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        if self.lookahead < 0:
            raise InputError(f"lookahead must be 0 (no limit) or more, got {self.lookahead}")
        if not 0 <= self.confidence <= 1:
            raise InputError(f"confidence must lie between 0 and 1, got {self.confidence}")
        if not 1 <= self.n <= 12:
            raise InputError(f"n must be between 1 and 12, got {self.n}")
        if self.size < 0:
            raise InputError(f"size must be 0 (all tokens) or more, got {self.size}")


@dataclass(frozen=True)
class SlrsOptions(HeteroOptions):
    """``lookahead`` is the n of S_1: draft tokens that settle one target token at most.

    ``floor``: a spelling less likely than that is not followed; 0 is Algorithm 3 as it is printed.
    ``nodes``: draft texts that a step may evaluate before it goes on with TLI.
    """

    floor: float = 1e-3
    nodes: int = 96

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        super().__post_init__()
        if not 0 <= self.floor < 1:
            raise InputError(f"floor must be at least 0 and below 1, got {self.floor}")
        if self.nodes < 0:
            raise InputError(f"nodes must be 0 or more, got {self.nodes}")
