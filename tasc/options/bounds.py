"""Options that carry their bounds: what the method's mathematics and a machine can bear."""

from dataclasses import dataclass, field, fields
from typing import TypeVar

from tasc.errors import InputError

MOST = 10**9  # of what kernels count in 32 bits
MOST_NODES = 1024  # of a draft: its mask has as many squared
LONGEST = 1024  # tokens of an n-gram, a match or a chain
COLDEST, HOTTEST = 1e-30, 1e30  # temperatures: logits and 1 / temperature are float32


def check_temperature(value: float) -> None:
    """Refuse what no token can be sampled at, such as 0: decoding without sampling is greedy."""
    if not COLDEST <= value <= HOTTEST:
        raise InputError(
            f"temperature must be above 0 and finite, {COLDEST:g} to {HOTTEST:g}, got {value:g}: "
            "leave out --temperature, in Python sampling, to decode greedily"
        )


Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Bounds:
    """The numbers from ``low`` to ``high``, without ``high`` itself where ``below``."""

    low: float
    high: float
    below: bool = False

    def hold(self, value: float) -> bool:
        """Say whether ``value`` is one of them; nan never is."""
        return self.low <= value <= self.high and not (self.below and value == self.high)

    def __str__(self) -> str:
        """Return what a number must do to be one of them."""
        if self.below:
            return f"be at least {self.low:,} and below {self.high:,}"
        return f"lie between {self.low:,} and {self.high:,}"


def within(
    default: Number, low: Number, high: Number, description: str = "", *, below: bool = False
) -> Number:
    """Declare a number of a ``Bounded`` dataclass, and what a person is told of it."""
    bounds = Bounds(low, high, below)
    made: Number = field(default=default, metadata={"bounds": bounds, "description": description})
    return made


@dataclass(frozen=True)
class Bounded:
    """Base of options whose numbers are declared with ``within``."""

    def __post_init__(self) -> None:
        """Refuse values outside their bounds."""
        for option in fields(self):
            bounds: Bounds | None = option.metadata.get("bounds")
            value = getattr(self, option.name)
            if bounds and not bounds.hold(value):
                name = option.name.rstrip("_")
                raise InputError(f"{name} must {bounds}, got {value}")
