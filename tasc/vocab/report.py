"""The report of ``tasc augment``: augmentation.json, typed."""

from typing import Literal

from tasc.report.record import Record, Report
from tasc.vocab.search.budget import Curve, Sightings


class OutputSizes(Record):
    """Sizes of a set of outputs with the base tokenizer, as predicted, and with the saved one."""

    outputs: int
    bytes: int
    tokens: dict[str, int]
    """In all, excluding end tokens: "before" with the base tokenizer, "predicted" by the search's
    merges applied one after another, and "reached" with the saved tokenizer."""
    tokens_per_output: dict[str, float]
    bytes_per_token: dict[str, float]
    ratio: float
    """Tokens before, divided by tokens reached."""
    new_token_uses: int

    @classmethod
    def of(cls, outputs: int, size: int, tokens: dict[str, int], uses: int) -> "OutputSizes":
        """Return the sizes of ``outputs`` texts of ``size`` bytes; ``tokens`` as in the field."""
        return cls(
            outputs=outputs,
            bytes=size,
            tokens=tokens,
            tokens_per_output={name: n / max(outputs, 1) for name, n in tokens.items()},
            bytes_per_token={name: size / max(n, 1) for name, n in tokens.items()},
            ratio=tokens["before"] / max(tokens["reached"], 1),
            new_token_uses=uses,
        )


class TrimReport(Record):
    """The tokens that were dropped from the base tokenizer, and the effect on other texts."""

    before: int
    """Tokens of the base tokenizer."""
    kept: int
    used: int
    """Tokens that the prompts and outputs of the training split use."""
    changed: int
    """Training texts whose tokens changed."""
    bytes_per_token: dict[str, float]
    """Of Python docstrings, as a sample of other texts, "before" and "after"."""


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
    trim: TrimReport | None = None
