"""A corpus of a few intents and two new tokens for it."""

from dataclasses import dataclass
from itertools import product

from tasc.data.corpus import Corpus, Example
from tasc.data.source import Source

OBJECTS = ("lights", "radio", "heating", "alarm", "kettle")
PLACES = ("kitchen", "hall", "garage", "attic")


@dataclass(frozen=True)
class Row:
    """A new token."""

    new_id: int
    base_ids: tuple[int, ...]


ROWS = (Row(320, (5, 6)), Row(321, (7, 8, 9)))


def corpus(copies: int = 1, first: int = 0) -> Corpus:
    """Commands and the slots they hold, one example for each object and position."""
    pairs = list(product(OBJECTS, PLACES))[first:] * copies
    examples = tuple(
        Example(
            f"turn on the {thing} in the {position}",
            f"intent: {thing}_on, slot fills: {{position: {position}}}",
            f"turn on the {thing} in the {position}\n",
        )
        for thing, position in pairs
    )
    return Corpus(Source("made up"), "train", examples, f"{copies} {first}")
