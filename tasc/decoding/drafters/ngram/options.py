"""How n-grams are counted, by ``tasc index`` and by methods that count a corpus themselves."""

from dataclasses import dataclass, field, fields
from typing import Annotated, ClassVar

from pydantic import Field

from tasc.options.bounds import MOST, Bounded, within
from tasc.options.command import like
from tasc.options.executor import ShardOptions
from tasc.options.fields import TOKENIZER


@dataclass(frozen=True)
class Counts(Bounded):
    """How to count: contexts up to ``n_max`` tokens, continuations seen ``p_min`` times or more.

    p(t | c) = max(n(c, t) - discount, 0) / (n(c) + strength) + the rest to the context without its
    first token. ``mark``: an output's beginning is a context of its own.
    """

    n_max: int = within(6, 1, 15, "Longest context, in tokens.")
    p_min: int = within(1, 1, MOST, "Drop continuations seen less often.")
    discount: float = within(0.8, 0, 1, "Absolute discount of every count.", below=True)
    strength: float = within(1.0, 0, MOST, "Pull towards shorter contexts.")
    mark: bool = field(default=True, metadata={"description": "Know where outputs begin."})


class IndexOptions(ShardOptions):
    """Options of ``tasc index``."""

    command = "index"
    result_file = "index.json"
    products: ClassVar = frozenset({"index"})
    references: ClassVar = {"tokenizer": "tokenizer", "merge": "index"}
    chat_template_of = "tokenizer"
    streamed = True
    incidental: ClassVar = ShardOptions.incidental | {"memory"}

    tokenizer: Annotated[str, TOKENIZER]
    n_max: int = like(Counts, "n_max")
    p_min: int = like(Counts, "p_min")
    discount: float = like(Counts, "discount")
    strength: float = like(Counts, "strength")
    mark: bool = like(Counts, "mark")
    merge: tuple[str, ...] = Field(
        (), description="Saved index whose outputs come before the source's; repeatable."
    )
    memory: float = Field(
        2.0, ge=0.001, le=MOST, description="GiB to sort in; a larger corpus is counted in parts."
    )

    @property
    def counts(self) -> Counts:
        """How to count."""
        return Counts(**{option.name: getattr(self, option.name) for option in fields(Counts)})
