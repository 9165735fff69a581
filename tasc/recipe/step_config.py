"""What the options of all commands have in common."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from tasc.data.source import Source
from tasc.errors import TascError
from tasc.places import at_home

_BROKEN = re.compile("[\0\ud800-\udfff]")  # no system takes it in a path, no file as UTF-8
MOST_EXAMPLES = 10**9
LARGEST_SEED = 2**32 - 1  # the generators of all libraries take it
MOST_THREADS = 1024
LONGEST = 2**20  # tokens of a sequence
Kind = Literal["model", "tokenizer", "new tokens", "index", "draft head", "token counts"]


@contextmanager
def as_value_error() -> Iterator[None]:
    """Turn what the library refuses into a finding among others of the same options."""
    try:
        yield
    except TascError as error:
        raise ValueError(str(error)) from None


class Config(BaseModel):
    """Frozen options; an unknown key is an error. Every number has bounds that a machine bears."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    command: ClassVar[str]
    result_file: ClassVar[str]
    # Fields that name a folder, file, or Hub id, and what must lie there. They may name an earlier
    # step of a recipe that makes such a thing.
    references: ClassVar[Mapping[str, Kind]] = {}
    # Fields that say how to work and do not change the result.
    incidental: ClassVar[set[str]] = set()

    # What a later step may refer to in the artefact.
    products: ClassVar[frozenset[Kind]] = frozenset()

    @property
    def makes(self) -> frozenset[Kind]:
        """What a later step may refer to in the artefact that these very options make."""
        return self.products

    @field_validator("*", mode="before")
    @classmethod
    def _sound(cls, value: object, info: ValidationInfo) -> object:
        """Refuse true and false but for a switch, where they would be 1 and 0; and broken text."""
        parts = value if isinstance(value, list | tuple) else (value,)
        field = cls.model_fields[info.field_name or ""]
        if field.annotation is not bool and any(isinstance(part, bool) for part in parts):
            raise ValueError(f"{info.field_name}: true and false (on, yes, no) are for switches")
        for text in parts:
            if isinstance(text, str) and _BROKEN.search(text):
                raise ValueError(f"{info.field_name}: {text!r:.60} holds what is no character")
        return value


class DataConfig(Config):
    """Where examples come from: a built-in task, a local file or folder, or a Hub data set."""

    path: str
    input_column: str = "input"
    output_column: str = "output"
    template: str = "{input}\n"
    config: str | None = None

    @field_validator("path")
    @classmethod
    def _at_home(cls, value: str) -> str:
        with as_value_error():
            return at_home(value)

    @model_validator(mode="after")
    def _readable(self) -> Self:
        with as_value_error():
            self.source()
        return self

    def source(self) -> Source:
        """Return the library's description of the same."""
        return Source(**self.model_dump())


class StepConfig(Config):
    """What every command takes."""

    source: DataConfig
    split: str = "train"
    limit: int | None = Field(None, ge=1, le=MOST_EXAMPLES)
    seed: int = Field(0, ge=0, le=LARGEST_SEED)

    @field_validator("*")
    @classmethod
    def _at_home(cls, value: object, info: ValidationInfo) -> object:
        """Write ~ out wherever a folder is named: no shell does so behind ``LABEL=``."""
        if value is None or info.field_name not in cls.references:
            return value
        named = value if isinstance(value, tuple) else (value,)
        if not all(text.strip() for text in named):
            raise ValueError(f"{info.field_name} is empty: name a file, a folder or a Hub id")
        with as_value_error():
            return tuple(map(at_home, named)) if named is value else at_home(named[0])


class ModelConfig(StepConfig):
    """What every command takes that runs a model. Small ones are fastest on one CPU thread."""

    threads: int | None = Field(None, ge=1, le=MOST_THREADS)
