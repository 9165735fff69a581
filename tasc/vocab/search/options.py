"""The options of ``tasc augment``."""

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from tasc.analysis.options import HELD_OUT, MergeSearchOptions
from tasc.options.bounds import MOST
from tasc.options.command import Kind, StepSpec
from tasc.options.fields import TOKENIZER, Shell, Text

OVERFIT_PENALTY = 10.0  # also the one that analyses assume


class AugmentOptions(MergeSearchOptions):
    """The number of new tokens, the search for them, and their export."""

    command = "augment"
    spec = StepSpec(
        "augmentation.json",
        references={"tokenizer": "tokenizer"},
        makes=frozenset({"tokenizer", "new tokens"}),
        chat_template_of="tokenizer",
        other_splits=HELD_OUT,
    )

    tokenizer: Annotated[str, TOKENIZER]
    trim: bool = Field(
        False,
        description="Drop the tokens that the task does not use. Without new tokens, also write "
        "the smaller model.",
    )
    rows: Annotated[int | None, Shell(default="8192, or what the task needs")] = Field(
        None, ge=1, le=MOST, description="With --trim: maximum number of tokens to keep."
    )
    new_tokens: Annotated[
        int | Literal["auto"] | None, Shell(default="500; with --trim 0", aliases=("budget",))
    ] = Field(None, description="Number of new tokens; auto: the recommended size, 50 if it is 0.")
    overfit_penalty: float = Field(
        OVERFIT_PENALTY,
        ge=0,
        le=MOST,
        description="With auto: percentage of decoding time that weighs as much as 1 % of spoilt "
        "outputs.",
    )
    conditional: bool = Field(
        False, description="Count prefix collisions given the preceding n - 1 tokens."
    )
    min_gain: float = Field(
        0.0, ge=0, lt=1, description="Stop before a token that saves a smaller share of tokens."
    )
    protect: tuple[Text, ...] = Field(
        (), description="Text that no new token may contain, such as { or \\n; repeatable."
    )

    @field_validator("new_tokens", mode="before")
    @classmethod
    def _number_or_auto(cls, value: object, info: ValidationInfo) -> object:
        text = str(value)
        number = int(text) if text.isascii() and text.isdigit() else -1
        least = 0 if info.data.get("trim") else 1
        if value is None or text == "auto" or least <= number <= MOST:
            return value
        raise ValueError(f"new_tokens: got {value!r:.60}, give a number from 1 to {MOST:,} or auto")

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.rows is not None and not self.trim:
            raise ValueError("rows has no effect without trim: add --trim")
        return self

    @property
    def wanted(self) -> int | Literal["auto"]:
        """The number of new tokens, also if it was not given."""
        if self.new_tokens is None:
            return 0 if self.trim else 500
        return self.new_tokens

    @property
    def makes(self) -> frozenset[Kind]:
        """With ``--trim`` alone, a model, too."""
        return self.spec.makes | ({"model"} if self.wanted == 0 else set())
