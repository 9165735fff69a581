"""The options of ``tasc augment``."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from tasc.analysis.options import HELD_OUT, MergeSearchOptions
from tasc.options.bounds import MOST
from tasc.options.command import StepSpec
from tasc.options.fields import TOKENIZER, Shell, Text

OVERFIT_PENALTY = 10.0  # also the one that analyses assume


class AugmentOptions(MergeSearchOptions):
    """The number of new tokens, the search for them, and their export."""

    command = "augment"
    spec = StepSpec(
        "augmentation.json",
        references={"tokenizer": "tokenizer"},
        makes=frozenset({"tokenizer", "new tokens"}),
        other_splits=HELD_OUT,
    )

    tokenizer: Annotated[str, TOKENIZER]
    new_tokens: Annotated[int | Literal["auto"], Shell(aliases=("budget",))] = Field(
        500, description="Number of new tokens; auto chooses the recommended size."
    )
    overfit_penalty: float = Field(
        OVERFIT_PENALTY,
        ge=0,
        le=MOST,
        description="For auto: per cent of time that weighs as much as 1 % of spoilt outputs.",
    )
    conditional: bool = Field(
        False, description="Count prefix collisions given the preceding n - 1 tokens."
    )
    min_gain: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Stop before a token that saves less than this share of tokens.",
    )
    protect: tuple[Text, ...] = Field(
        (), description="Text that no new token may contain, such as { or \\n; repeatable."
    )

    @field_validator("new_tokens", mode="before")
    @classmethod
    def _number_or_auto(cls, value: object) -> object:
        text = str(value)
        if text == "auto" or (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST):
            return value
        raise ValueError(f"new_tokens: got {value!r:.60}, give a number from 1 to {MOST:,} or auto")
