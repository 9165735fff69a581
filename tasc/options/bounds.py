"""Bounds of numeric options, set by the mathematics and by the machine."""

from dataclasses import dataclass, field, fields
from typing import TypeVar

from tasc.errors import InputError

MOST = 10**9  # kernels count in 32 bits
MOST_NODES = 1024  # of a draft, whose mask has the square of that
LONGEST = 1024  # tokens of an n-gram, a match or a chain
COLDEST, HOTTEST = 1e-30, 1e30  # temperatures: logits and 1 / temperature are float32


def check_temperature(value: float) -> None:
    """Raise InputError for a temperature that cannot be sampled at, such as 0."""
    if not COLDEST <= value <= HOTTEST:
        raise InputError(
            f"temperature must be from {COLDEST:g} to {HOTTEST:g}, got {value:g}: leave out "
            "--temperature, in Python sampling, to decode greedily"
        )


Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Bounds:
    """The numbers from ``low`` to ``high``; with ``below``, without ``high`` itself."""

    low: float
    high: float
    below: bool = False

    def hold(self, value: float) -> bool:
        """Return whether ``value`` lies within the bounds; nan does not."""
        return self.low <= value <= self.high and not (self.below and value == self.high)

    def __str__(self) -> str:
        """Return the bounds in words, to follow "must"."""
        if self.below:
            return f"be at least {self.low:,} and below {self.high:,}"
        return f"lie between {self.low:,} and {self.high:,}"


def within(
    default: Number, low: Number, high: Number, description: str = "", *, below: bool = False
) -> Number:
    """Declare a numeric field of a ``Bounded`` dataclass, with its bounds and description."""
    bounds = Bounds(low, high, below)
    declared: Number = field(
        default=default, metadata={"bounds": bounds, "description": description}
    )
    return declared


@dataclass(frozen=True)
class Bounded:
    """Base of dataclasses whose numeric fields are declared with ``within``."""

    def __post_init__(self) -> None:
        """Raise InputError for a value outside its bounds."""
        for option in fields(self):
            bounds: Bounds | None = option.metadata.get("bounds")
            value = getattr(self, option.name)
            if bounds and not bounds.hold(value):
                name = option.name.rstrip("_")
                raise InputError(f"{name} must {bounds}, got {value}")
