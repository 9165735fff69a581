"""Options for counting n-grams, in ``tasc index`` and in methods that count a corpus."""

from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from pydantic import Field, field_validator

from tasc.errors import InputError
from tasc.options.bounds import MOST, Bounded, within
from tasc.options.command import StepSpec
from tasc.options.executor import EXECUTOR_FIELDS, ExecutorOptions
from tasc.options.fields import TOKENIZER, as_value_error


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
        by_hand=frozenset({"merge"}),
        streamed=True,
    )

    tokenizer: Annotated[str, TOKENIZER]
    counts: str = Field(
        "",
        description="What to count, if not as tasc-spec does by default: its options n_max, "
        "p_min, discount, strength and mark, as in n_max=8,discount=0.6.",
    )
    merge: tuple[str, ...] = Field(
        (), description="Saved index to merge before the source's outputs; repeatable."
    )
    memory: float = Field(
        2.0, ge=0.001, le=MOST, description="Memory in GiB; larger corpora are counted in parts."
    )

    @field_validator("counts")
    @classmethod
    def _readable(cls, value: str) -> str:
        with as_value_error():
            read_counts(value)
        return value

    @property
    def rules(self) -> Counts:
        return read_counts(self.counts)


def read_counts(text: str) -> Counts:
    """Read ``key=value,…``, such as ``n_max=8,discount=0.6``; an empty text is the default.

    Raises InputError for an unknown key, or a value of the wrong type or out of bounds.
    """
    known_fields = {option.name: option for option in fields(Counts)}
    values: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        key, _, value = item.partition("=")
        if key not in known_fields or key in values:
            raise InputError(
                f"counts: got {item!r:.60}: write key=value, once each, with the keys "
                + ", ".join(known_fields)
            )
        values[key] = _read(key, value, type(known_fields[key].default))
    try:
        return Counts(**values)
    except InputError as error:
        raise InputError(f"counts: {error}") from None


def _read(key: str, value: str, kind: type) -> bool | int | float:
    if kind is bool and value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        if kind is bool:
            raise ValueError
        number: int | float = kind(value)
    except ValueError:
        wanted = "true or false" if kind is bool else kind.__name__
        raise InputError(f"counts: {key} must be {wanted}, got {value!r:.60}") from None
    return number
