"""Options for counting n-grams, in ``tasc index`` and in methods that count a corpus."""

from dataclasses import dataclass, field, fields
from typing import Annotated

from pydantic import Field

from tasc.options.bounds import MOST, Bounded, within
from tasc.options.command import StepSpec, like
from tasc.options.executor import ADDRESS, EXECUTOR_FIELDS, ExecutorOptions
from tasc.options.fields import TOKENIZER


@dataclass(frozen=True)
class Counts(Bounded):
    """Count contexts of up to ``n_max`` tokens and continuations seen at least ``p_min`` times.

    p(t | c) = max(n(c, t) - discount, 0) / (n(c) + strength), plus the remaining mass times
    p(t | c without its first token). ``mark``: the beginning of an output is a context of its own.
    """

    n_max: int = within(6, 1, 15, "Longest context, in tokens.")
    p_min: int = within(1, 1, MOST, "Minimum count of a continuation.")
    discount: float = within(0.8, 0, 1, "Discount subtracted from every count.", below=True)
    strength: float = within(1.0, 0, MOST, "Weight of shorter contexts.")
    mark: bool = field(default=True, metadata={"description": "Count the beginnings of outputs."})


class IndexOptions(ExecutorOptions):
    """Options of ``tasc index``."""

    command = "index"
    spec = StepSpec(
        "index.json",
        references={"tokenizer": "tokenizer", "merge": "index"},
        makes=frozenset({"index"}),
        chat_template_of="tokenizer",
        incidental=EXECUTOR_FIELDS | {"memory"},
        by_hand=ADDRESS | {"merge"},
        streamed=True,
    )

    tokenizer: Annotated[str, TOKENIZER]
    n_max: int = like(Counts, "n_max")
    p_min: int = like(Counts, "p_min")
    discount: float = like(Counts, "discount")
    strength: float = like(Counts, "strength")
    mark: bool = like(Counts, "mark")
    merge: tuple[str, ...] = Field(
        (), description="Saved index to merge before the source's outputs; repeatable."
    )
    memory: float = Field(
        2.0, ge=0.001, le=MOST, description="Memory in GiB; larger corpora are counted in parts."
    )

    @property
    def counts(self) -> Counts:
        return Counts(**{option.name: getattr(self, option.name) for option in fields(Counts)})
