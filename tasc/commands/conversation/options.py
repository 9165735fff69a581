"""The options of ``tasc chat``."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from tasc.decoding.drafters import Method, default_method, parse
from tasc.options.command import Data, ModelOptions
from tasc.options.fields import LONGEST, Device, Dtype, Shell, Split, Temperature, as_value_error


class ChatOptions(ModelOptions):
    """Options of ``tasc chat``, which leaves nothing."""

    command = "chat"
    flags: ClassVar = ()
    references: ClassVar = {"model": "model", "index": "index", "draft_head": "draft head"}
    chat_template_of = "model"

    model: Annotated[str, Shell(argument=True)] = Field(
        description="Model folder, folder of tasc finetune --merge, or Hub id."
    )
    # Overridden on purpose: drafts may come from the conversation alone.
    source: Annotated[Data | None, Shell("data")] = None  # type: ignore[assignment]
    split: Split = "train"
    method: Annotated[str | None, Shell(default="tasc-spec; with --draft-head mix")] = Field(
        None, description="What drafts, with options as tasc bench --method takes it."
    )
    index: str | None = Field(
        None, description="Folder of tasc index to draft from, instead of the outputs of --data."
    )
    draft_head: str | None = Field(
        None, description="Folder of a draft head, for the methods that need one."
    )
    system: str | None = Field(
        None, description="Message that a chat begins with, which tells the model how to answer."
    )
    max_new_tokens: int = Field(256, ge=1, le=LONGEST, description="Longest answer, in tokens.")
    temperature: Temperature = Field(None, description="Sample answers, with --seed.")
    dtype: Dtype = "float32"
    device: Device = "auto"

    @property
    def drafter(self) -> Method:
        """What drafts."""
        return parse(self.method or default_method(head=self.draft_head is not None))

    @model_validator(mode="after")
    def _drafts(self) -> Self:
        with as_value_error():
            self.drafter.check(self.draft_head is not None, draft=False)
        return self
