"""The options of ``tasc export`` and ``tasc serve``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from tasc.decoding.drafters import parse
from tasc.options.bounds import MOST, MOST_NODES
from tasc.options.command import THREADS, CommandOptions, Kind, StepSpec
from tasc.options.constraint import REFERENCES, ConstrainedOptions
from tasc.options.fields import MODEL, DecodingDtype, Shell, Tokens, UserPath, as_value_error
from tasc.options.task import Data
from tasc.serving.table import EXPORTS

if TYPE_CHECKING:
    Engine = str
else:
    Engine = Literal[tuple(EXPORTS)]

Weights = Literal["f32", "f16", "bf16", "q8_0"]
LOOPBACK = "127.0.0.1"
PORT = 8000
MOST_AT_ONCE = 256


class ExportOptions(ConstrainedOptions):
    """Options of ``tasc export``; without data, index and head, the export has no drafts."""

    command = "export"
    spec = StepSpec(
        "export.json",
        references={
            "model": "model",
            "index": "index",
            "head": "draft head",
            **REFERENCES,
            "choices": "labels",
        },
        chat_template_of="model",
    )

    model: Annotated[str, Shell(argument=True)] = Field(
        description=f"{MODEL}, or folder of tasc finetune --merge or tasc base."
    )
    to: Engine = Field(description="Inference engine to export to.")
    # Optional here: an export needs no data.
    source: Annotated[Data | None, Shell("data")] = None  # type: ignore[assignment]
    index: str | None = Field(
        None, description="Folder of tasc index to draft from; by default built from --data."
    )
    head: str | None = Field(
        None, description="Folder of tasc finetune --draft-head, for transformers."
    )
    choices: str | None = Field(
        None, description="Labels, in a file or a column of the data; every output is one of them."
    )
    speculative_tokens: int = Field(
        8,
        ge=1,
        le=MOST_NODES,
        description="Draft tokens per step; tasc analyze --serve recommends a number.",
    )
    weights: Weights = Field(
        "f32",
        description="Data type of the weights, for llama-cpp; other engines keep the "
        "model's data type.",
    )

    @property
    def makes(self) -> frozenset[Kind]:
        # A later step cannot read a GGUF.
        return frozenset() if self.to == "llama-cpp" else frozenset({"model", "tokenizer"})

    @model_validator(mode="after")
    def _drafts(self) -> Self:
        if self.head and "draft head" not in EXPORTS[self.to].drafts:
            able = ", ".join(name for name, e in EXPORTS.items() if "draft head" in e.drafts)
            raise ValueError(f"{self.to} takes no draft head: leave head out, or export to {able}")
        if self.choices is not None and self.constraint is not None:
            raise ValueError("choices and another constraint exclude each other: remove one")
        if self.head and self.index:
            raise ValueError("index and head exclude each other: give one of them")
        if self.weights != "f32" and self.to != "llama-cpp":
            raise ValueError(f"weights has no effect on {self.to}: leave it out")
        return self


class ServeOptions(CommandOptions):
    """Options of ``tasc serve``."""

    command = "serve"
    flags: ClassVar = ()

    folder: Annotated[UserPath, Shell(argument=True)] = Field(
        description=f"{MODEL}, as PATH or NAME=PATH; or folder of tasc export, whose engine starts."
    )
    host: str = Field(
        LOOPBACK, min_length=1, description="Address to listen on; 0.0.0.0 admits other machines."
    )
    port: int = Field(PORT, ge=1, le=65535, description="Port to listen on.")
    indexes: Annotated[tuple[str, ...], Shell("index")] = Field(
        (), description="Folder of tasc index to draft from; repeatable."
    )
    tasks: UserPath | None = Field(
        None,
        description="Folder of tasks that requests choose by model name: a folder of tasc index, a "
        "form of outputs, or both for each.",
    )
    state: UserPath | None = Field(
        None, description="File that keeps the outputs that drafts are learnt from."
    )
    method: str = Field(
        "tasc-spec",
        description="Method that drafts, as for tasc bench --method; ar drafts nothing.",
    )
    dtype: DecodingDtype = "auto"
    batch_size: int = Field(
        8, ge=1, le=MOST_AT_ONCE, description="Outputs that are decoded at a time; others wait."
    )
    queue: int = Field(64, ge=0, le=MOST, description="Outputs that may wait for a place.")
    max_length: Tokens = Field(4096, description="Most tokens of a prompt and its output.")
    timeout: int = Field(
        600, ge=1, le=MOST, description="Seconds that a request may take, its wait included."
    )
    grace: int = Field(
        30, ge=0, le=3600, description="Seconds that running requests get to end after SIGTERM."
    )
    threads: int | None = THREADS

    @property
    def is_export(self) -> bool:
        """Whether the folder is one of ``tasc export``, which names its engine."""
        return (Path(self.folder) / ExportOptions.spec.result_file).is_file()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        stated = self.model_fields_set - {"folder", "host", "port"}
        if stated and self.is_export:
            raise ValueError(
                f"{min(stated)} has no effect on a folder of tasc export, whose engine has its "
                "own options: leave it out, or give the model"
            )
        with as_value_error():
            method = parse(self.method)
        if method.entry.needs not in ("", "model", "logits"):
            raise ValueError(
                f"method {self.method!r} needs more than a model and an index: give tasc-spec, "
                "suffix or another that drafts from tokens"
            )
        return self
