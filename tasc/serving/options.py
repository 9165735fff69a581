"""The options of ``tasc export`` and ``tasc serve``."""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from tasc.options.bounds import MOST_NODES
from tasc.options.command import CommandOptions, Data, Kind, StepOptions
from tasc.options.fields import AtHome, Shell
from tasc.serving.table import EXPORTS

if TYPE_CHECKING:
    Engine = str
else:
    Engine = Literal[tuple(EXPORTS)]

Weights = Literal["f32", "f16", "bf16", "q8_0"]
LOOPBACK = "127.0.0.1"
PORT = 8000


class ExportOptions(StepOptions):
    """Options of ``tasc export``: without data and without an index, nothing is drafted."""

    command = "export"
    result_file = "export.json"
    references: ClassVar = {"model": "model", "index": "index", "head": "draft head"}
    chat_template_of = "model"

    model: Annotated[str, Shell(argument=True)] = Field(
        description="Model to serve: folder of tasc finetune --merge, of tasc base, or any other."
    )
    to: Engine = Field(description="Engine that will serve it.")
    # Overridden on purpose: every other step reads data, this one may do without.
    source: Annotated[Data | None, Shell("data")] = None  # type: ignore[assignment]
    index: str | None = Field(
        None, description="Folder of tasc index to draft from; without it, --data is counted."
    )
    head: str | None = Field(
        None, description="Folder of tasc finetune --draft-head to draft with, for transformers."
    )
    speculative_tokens: int = Field(
        8,
        ge=1,
        le=MOST_NODES,
        description="Draft tokens a step; tasc analyze --serve says how many.",
    )
    weights: Weights = Field(
        "f32", description="Numbers of a GGUF, for llama-cpp; others keep the model's own."
    )

    @property
    def makes(self) -> frozenset[Kind]:
        """See StepOptions.makes: a GGUF is no model that a later step reads."""
        return frozenset() if self.to == "llama-cpp" else frozenset({"model", "tokenizer"})

    @model_validator(mode="after")
    def _drafts(self) -> Self:
        if self.head and "draft head" not in EXPORTS[self.to].drafts:
            able = ", ".join(name for name, e in EXPORTS.items() if "draft head" in e.drafts)
            raise ValueError(f"{self.to} takes no draft head: leave head out, or export to {able}")
        if self.head and self.index:
            raise ValueError("one thing drafts: give an index or a head")
        if self.weights != "f32" and self.to != "llama-cpp":
            raise ValueError(f"weights are of a GGUF: leave them out, {self.to} keeps the model's")
        return self


class ServeOptions(CommandOptions):
    """Options of ``tasc serve``."""

    command = "serve"
    flags: ClassVar = ()

    folder: Annotated[AtHome, Shell(argument=True)] = Field(description="Folder of tasc export.")
    host: str = Field(
        LOOPBACK, min_length=1, description="Address to listen on; 0.0.0.0 lets other machines in."
    )
    port: int = Field(PORT, ge=1, le=65535, description="Port to listen on.")
