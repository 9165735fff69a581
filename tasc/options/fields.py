"""Kinds of fields that options are made of: how each is read, and what is checked of it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from tasc.errors import TascError
from tasc.options.bounds import check_temperature
from tasc.options.references import expand_user

LONGEST = 2**20  # tokens of a sequence


@dataclass(frozen=True)
class Shell:
    """How a field is typed on the command line, where its own name and default do not say so."""

    name: str = ""  # the option's, without dashes
    argument: bool = False  # whether it stands without a name, by its position
    default: str = ""  # what is shown for an option left out
    aliases: tuple[str, ...] = ()  # older names, on the command line, in recipes and in Python


@contextmanager
def as_value_error() -> Iterator[None]:
    """Turn what the library refuses into a finding among others of the same options."""
    try:
        yield
    except TascError as error:
        raise ValueError(str(error)) from None


def _expand_user(text: str) -> str:
    with as_value_error():
        return expand_user(text)


UserPath = Annotated[str, AfterValidator(_expand_user)]  # a path with a leading ~ expanded


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")


# Text in which \\n stands for a newline, which shells and YAML make hard to type. Decoded here and
# not where it is typed, so that one prompt comes of it wherever it stands.
Unescaped = Annotated[str, AfterValidator(_unescaped)]
Text = Annotated[str, Field(min_length=1), AfterValidator(_unescaped)]  # the same, not empty


def _warm(temperature: float | None) -> float | None:
    if temperature is not None:
        with as_value_error():
            check_temperature(temperature)
    return temperature


Temperature = Annotated[float | None, Shell(default="greedy"), AfterValidator(_warm)]


def _numbers(value: object, info: ValidationInfo) -> object:
    """Take one number that a recipe does not quote, too."""
    text = str(value) if type(value) is int else value
    if isinstance(text, str) and not re.fullmatch(r"[0-9]{1,3}(,[0-9]{1,3})*", text):
        raise ValueError(f"{info.field_name}: {text!r:.60} is not numbers up to 999 such as 1,8,32")
    return text


Numbers = Annotated[str, BeforeValidator(_numbers)]


def parse_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a ``Numbers`` field, each once, in order."""
    return tuple(sorted({int(number) for number in text.split(",")}))


Split = Annotated[str, Field(description="Split to work on.")]
CorpusSplit = Annotated[str, Field(description="Split whose outputs drafters know.")]
Device = Annotated[Literal["auto", "cpu", "cuda"], Field(description="Where models run.")]
Dtype = Annotated[
    Literal["float32", "bfloat16", "auto"], Field(description="Of the model's numbers.")
]
MODEL = "Model folder, GGUF file, smollm2 or Hub id"
TOKENIZER = Field(description="Tokenizer or model folder, file, smollm2 or Hub id.")
