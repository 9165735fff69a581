"""The options of ``augment``."""

from dataclasses import dataclass
from typing import Literal, get_args

from tasc.backend.base import N_MAX_LIMIT
from tasc.errors import InputError
from tasc.vocab.export import Export


@dataclass(frozen=True)
class AugmentOptions:
    """What to look for and how to write it."""

    budget: int | Literal["auto"] = 500
    n_max: int = 4
    pcs: float = 0.05
    conditional: bool = False  # PCS given the preceding n - 1 tokens
    export: Export = "pretoken"
    min_gain: float = 0.0  # a token must save this share of the outputs' tokens, or the search ends
    protect: tuple[str, ...] = ()  # no new token holds one of these
    risk_price: float = 10.0  # per cent of the time that one per cent of outputs spoilt is worth

    def __post_init__(self) -> None:
        """Raise InputError for values that make no sense."""
        if self.budget != "auto" and self.budget < 1:
            raise InputError(f"--budget must be at least 1, or auto, got {self.budget}")
        if not 2 <= self.n_max <= N_MAX_LIMIT:
            raise InputError(f"--n-max must lie in 2..{N_MAX_LIMIT}, got {self.n_max}")
        if not self.pcs > 0:
            raise InputError(f"--pcs must be above 0, got {self.pcs}")
        if self.export not in get_args(Export):
            raise InputError(f"--export must be pretoken or added, got {self.export}")
        if not 0 <= self.min_gain < 1:
            raise InputError(f"--min-gain must lie in 0..1, got {self.min_gain}")
        if not self.risk_price >= 0:
            raise InputError(f"--risk-price must be 0 or more, got {self.risk_price}")
        if "" in self.protect:
            raise InputError("--protect is empty: give a text, or leave it out")
