"""The options of ``tasc init``."""

from typing import ClassVar

from pydantic import Field, field_validator

from tasc.options.command import LARGEST_SEED, CommandOptions, Data, as_value_error
from tasc.options.references import expand_user


class InitOptions(CommandOptions):
    """Options of ``tasc init``."""

    command = "init"
    flags: ClassVar = ("json",)

    source: Data
    model: str | None = Field(
        None,
        description="Model folder or Hub id to fine-tune; without it the recipe trains a small one "
        "from scratch.",
    )
    recipe: str = Field(
        "recipe.yaml", description="File to write; one that exists is never replaced."
    )
    seed: int = Field(
        0, ge=0, le=LARGEST_SEED, description="Of the recipe, and of which examples are held out."
    )

    @field_validator("source", mode="before")
    @classmethod
    def _path_alone(cls, value: object) -> object:
        return {"path": value} if isinstance(value, str) else value

    @field_validator("model", "recipe")
    @classmethod
    def _at_home(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not value.strip():
            raise ValueError(
                "a name is empty: give --recipe a file, and --model a folder or Hub id"
            )
        with as_value_error():
            return expand_user(value)
