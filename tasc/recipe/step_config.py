"""What the options of all commands have in common."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from tasc.data.source import Source
from tasc.places import at_home


class Config(BaseModel):
    """Frozen options; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    command: ClassVar[str]
    result_file: ClassVar[str]
    # Fields that name a folder, file, or Hub id, and may name an earlier step of a recipe.
    references: ClassVar[tuple[str, ...]] = ()
    # Fields that say how to work and do not change the result.
    incidental: ClassVar[set[str]] = set()


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
        return at_home(value)

    def source(self) -> Source:
        """Return the library's description of the same."""
        return Source(**self.model_dump())


class StepConfig(Config):
    """What every command takes."""

    source: DataConfig
    split: str = "train"
    limit: int | None = Field(None, ge=1)
    seed: int = Field(0, ge=0)

    @field_validator("*")
    @classmethod
    def _at_home(cls, value: object, info: ValidationInfo) -> object:
        """Write ~ out wherever a folder is named: no shell does so behind ``LABEL=``."""
        if value is None or info.field_name not in cls.references:
            return value
        named = value if isinstance(value, tuple) else (value,)
        if not all(text.strip() for text in named):
            raise ValueError(f"{info.field_name} is empty: name a file, a folder or a Hub id")
        return tuple(map(at_home, named)) if named is value else at_home(named[0])


class ModelConfig(StepConfig):
    """What every command takes that runs a model. Small ones are fastest on one CPU thread."""

    threads: int | None = Field(None, ge=1)
