"""The options of ``tasc data``."""

from typing import ClassVar

from pydantic import Field

from tasc.options.command import LONGEST, TOKENIZER, StepOptions


class DataOptions(StepOptions):
    """Options of ``tasc data``, which reads as a step does and leaves nothing."""

    command = "data"
    flags: ClassVar = ("json",)
    references: ClassVar = {"tokenizer": "tokenizer"}
    chat_template_of = "tokenizer"

    tokenizer: str = TOKENIZER
    samples: int = Field(3, ge=0, le=1000, description="Examples to show, drawn by the seed.")
    max_length: int = Field(
        512,
        ge=8,
        le=LONGEST,
        description="Show what tasc finetune cuts with the same --max-length.",
    )
    max_new_tokens: int = Field(
        256,
        ge=1,
        le=LONGEST,
        description="Count what tasc bench cannot finish with the same --max-new-tokens.",
    )
