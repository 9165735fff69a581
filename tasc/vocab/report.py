"""The report of ``tasc augment``: augmentation.json, typed."""

from typing import Literal

from tasc.report.record import Record, Report
from tasc.vocab.search.budget import Curve, Sightings


class OutputSizes(Record):
    """Sizes of a set of outputs with the base tokenizer, as predicted, and with the saved one."""

    outputs: int
    bytes: int
    tokens: dict[str, int]
    """In all, by "before", "predicted" and "reached"; so are the following two."""
    tokens_per_output: dict[str, float]
    bytes_per_token: dict[str, float]
    ratio: float
    """Tokens before, divided by tokens reached."""
    new_token_uses: int
    splits_words: int
    """Uses of new tokens that split a word."""


class AugmentReport(Report):
    """An augmented tokenizer: its size, its effect on outputs, and the effect of each budget."""

    export: str
    budget: int | Literal["auto"]
    added: int
    base_size: int
    size: int
    train: OutputSizes
    held_out: OutputSizes | None
    seen: Sightings
    h2: dict[str, float]
    """Rényi-2 entropy of the training outputs' tokens, "before" and "after", bits."""
    rejected: int
    duplicates: int
    excluded: dict[str, int]
    intermediate_merges: int
    unused: int
    changed: int
    rounds: int
    shortfall: str | None
    curve: Curve
