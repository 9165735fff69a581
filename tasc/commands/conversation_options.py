"""The options of ``tasc chat``."""

from typing import Annotated, ClassVar

from pydantic import Field

from tasc.options.command import ModelOptions, StepSpec
from tasc.options.fields import LONGEST, MODEL, Device, Dtype, Shell, Split
from tasc.options.task import Data


class ChatOptions(ModelOptions):
    """Options of ``tasc chat``, which writes no files."""

    command = "chat"
    flags: ClassVar = ()
    spec = StepSpec(
        references={"model": "model", "draft_head": "draft head"}, chat_template_of="model"
    )

    model: Annotated[str, Shell(argument=True)] = Field(
        description=f"{MODEL}, or folder of tasc finetune --merge."
    )
    # Optional here: drafts may come from the conversation alone.
    source: Annotated[Data | None, Shell("data")] = None  # type: ignore[assignment]
    split: Split = "train"
    method: str = Field("tasc-spec", description="Drafting method, as for tasc bench --method.")
    draft_head: str | None = Field(None, description="Folder of a draft head, for --method mix.")
    max_new_tokens: int = Field(256, ge=1, le=LONGEST, description="Longest answer, in tokens.")
    dtype: Dtype = "float32"
    device: Device = "auto"
