"""Options of the commands that train: ``tasc finetune`` and ``tasc base``."""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from tasc.errors import InputError
from tasc.options.command import Kind, ModelOptions, OtherSplit, StepSpec
from tasc.options.fields import LONGEST, MODEL, Count, Device, Dtype, Shell, Tokens, as_value_error
from tasc.training.adapters.options import AdapterOptions
from tasc.training.core.schedule import Schedule

Sequences = Annotated[int, Field(ge=1, le=2**16)]  # per batch
MOST_EPOCHS, MOST_RATE = 10**6, 100
# Defaults for adapters, and for a draft head.
_RATE, _HEAD_RATE = 2e-4, 1e-3
_BATCH, _HEAD_BATCH = 64, 16
_HEAD_SHAPE: dict[str, Any] = {"shape": "cosine", "warmup_steps": 20, "floor": 0.05, "clip": 0.5}
REPORT = "training.json"
# 1,000 examples are enough for a loss, and cheaper than the training.
_OTHER_SPLITS = {"validation": OtherSplit(most=1000)}


class TrainingOptions(ModelOptions):
    """Options of both commands."""

    flags: ClassVar[tuple[str, ...]] = ("output", "force", "json", "resume")

    epochs: float = Field(
        3.0, gt=0, le=MOST_EPOCHS, description="Passes over the examples; may be a fraction."
    )
    validation: str | None = Field(
        "validation",
        description="Split to evaluate after each epoch, if the source has it; at most 1,000 "
        "examples, and at most a quarter of --limit.",
    )
    patience: Annotated[int | None, Shell(default="no early stop")] = Field(
        None,
        ge=1,
        le=MOST_EPOCHS,
        description="Stop after this many evaluations without improvement, and keep the best "
        "weights, by exact match and then by loss.",
    )
    device: Device = "auto"
    checkpoint_steps: Count = Field(
        50, description="Optimizer steps between checkpoints (0 = none)."
    )

    @property
    def training(self) -> dict[str, Any]:
        """The options that must agree to resume from a run's checkpoints."""
        others = {"source", "threads", "merge", *self.spec.incidental}
        return self.model_dump(mode="json", exclude=others)

    @abstractmethod
    def schedule(self, *, bfloat16: bool = True) -> Schedule:
        """Return how long and how fast to train."""

    def _schedule(self, micro_batch: int, effective_batch: int, **more: Any) -> Schedule:  # noqa: ANN401
        return Schedule(
            epochs=self.epochs,
            micro_batch=micro_batch,
            effective_batch=effective_batch,
            checkpoint_steps=self.checkpoint_steps,
            patience=self.patience,
            seed=self.seed,
            **more,
        )

    def check(self, *, held_out: bool) -> None:
        """Raise InputError for patience without held-out examples."""
        if self.patience is not None and not held_out:
            raise InputError(
                f"--patience needs a validation split, but {self.source.path} has no split "
                f"{self.validation!r} besides {self.split!r}: name one with --validation, or leave "
                "out --patience"
            )

    @model_validator(mode="after")
    def _trains(self) -> Self:
        with as_value_error():
            self.schedule()
        if self.patience is not None and self.validation is None:
            raise ValueError("patience needs a validation split: name one as validation")
        return self


class BaseOptions(TrainingOptions):
    """Options of ``tasc base``.

    With ``tokenizer_text="prompts"`` the tokenizer has not seen the task's outputs, like that of a
    published model; "all" fits it to the outputs too.
    """

    command = "base"
    spec = StepSpec(
        REPORT,
        references={"tokenizer": "tokenizer"},
        makes=frozenset({"model", "tokenizer"}),
        chat_template_of="tokenizer",
        other_splits=_OTHER_SPLITS,
    )

    preset: Literal["pico", "tiny", "small", "medium", "large"] = Field(
        "small", description="Size of the model: 0.13 M, 1 M, 4.5 M, 28 M or 494 M parameters."
    )
    tokenizer: str | None = Field(
        None, description="Tokenizer to use instead of training one: file, folder or Hub id."
    )
    vocabulary: Annotated[int | None, Shell(default="the preset's")] = Field(
        None, ge=300, le=2**20, description="Number of tokens of the new tokenizer."
    )
    tokenizer_text: Literal["prompts", "all"] = Field(
        "prompts",
        description="Text to train the tokenizer on: prompts, or all (prompts and outputs).",
    )
    minutes: float | None = Field(None, gt=0, le=10**6, description="Stop after this many minutes.")
    learning_rate: Annotated[float | None, Shell(default="the preset's")] = Field(
        None, gt=0, le=MOST_RATE, description="Peak learning rate of the cosine schedule."
    )
    block: int = Field(
        256, ge=2, le=LONGEST, description="Tokens of an example, into which texts are packed."
    )
    batch_blocks: Sequences = Field(9, description="Training examples per optimizer step.")
    positions: int = Field(
        4096, ge=2, le=LONGEST, description="Longest sequence, in tokens, stated in config.json."
    )

    def schedule(self, *, bfloat16: bool = True) -> Schedule:
        shape = {"minutes": self.minutes, "shape": "cosine", "warmup_steps": 30, "floor": 0.05}
        return self._schedule(self.batch_blocks, self.batch_blocks, bfloat16=bfloat16, **shape)


class FinetuneOptions(AdapterOptions, TrainingOptions):
    """Options of ``tasc finetune``.

    EAGLE's learning rate of 3e-5 is for heads as wide as a 7B model; small heads need a higher one.
    """

    command = "finetune"
    spec = StepSpec(
        REPORT,
        references={"model": "model", "augmented": "new tokens", "tokens_of": "training report"},
        chat_template_of="model",
        other_splits=_OTHER_SPLITS,
        incidental=frozenset({"processes"}),
        distributed=True,
    )

    model: str = Field(description=f"{MODEL} to start from.")
    augmented: str | None = Field(
        None, description="Folder written by tasc augment, whose tokens to add."
    )
    merge: bool = Field(False, description="Also write a plain model with the adapter merged in.")
    tokens: int | None = Field(
        None, ge=1, le=10**15, description="Train on this many tokens, prompts included."
    )
    tokens_of: str | None = Field(
        None, description="Output of another tasc finetune: train on the same number of tokens."
    )
    draft_head: bool = Field(False, description="Train a draft head on the model's own answers.")
    learning_rate: Annotated[
        float | None, Shell(default=f"{_RATE:g}; {_HEAD_RATE:g} for a draft head")
    ] = Field(None, gt=0, le=MOST_RATE, description="Peak learning rate of AdamW.")
    batch_size: Sequences = Field(8, description="Examples per forward.")
    effective_batch: Annotated[
        Sequences | None, Shell(default=f"{_BATCH}; {_HEAD_BATCH} for a draft head")
    ] = Field(None, description="Examples per optimizer step.")
    max_length: int = Field(
        512,
        ge=8,
        le=LONGEST,
        description="Maximum number of tokens of prompt and output; longer prompts are cut at the "
        "beginning.",
    )
    max_new_tokens: Tokens = Field(
        256, description="With --draft-head: maximum number of tokens per answer."
    )
    repetition_penalty: float = Field(
        1.0, ge=1, le=1000, description="With --draft-head: repetition penalty of the answers."
    )
    dtype: Dtype = "auto"
    processes: int = Field(
        1,
        ge=1,
        le=1024,
        description="Number of processes on this machine that share the examples of each step. "
        "Omit it under torchrun or accelerate launch.",
    )

    @property
    def makes(self) -> frozenset[Kind]:
        if self.draft_head:
            return frozenset({"draft head"})
        plain: set[Kind] = {"model"} if self.merge or self.adapter == "none" else set()
        return frozenset({"tokenizer", "training report", *plain})

    @property
    def peak(self) -> float:
        return self.learning_rate or (_HEAD_RATE if self.draft_head else _RATE)

    def schedule(self, *, bfloat16: bool = True) -> Schedule:
        whole = self.effective_batch or (_HEAD_BATCH if self.draft_head else _BATCH)
        shape = _HEAD_SHAPE if self.draft_head else {}
        return self._schedule(min(self.batch_size, whole), whole, bfloat16=bfloat16, **shape)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        lengths = self.model_fields_set & {"epochs", "tokens", "tokens_of"}
        lengths = {name for name in lengths if getattr(self, name) is not None}
        if len(lengths) > 1:
            raise ValueError(f"{' and '.join(sorted(lengths))} exclude each other: give one")
        if self.draft_head:
            self._check_head(lengths)
        return self

    def _check_head(self, lengths: set[str]) -> None:
        if self.augmented or self.merge:
            raise ValueError("draft_head trains no adapter: leave out augmented and merge")
        if self.adapter == "none":
            raise ValueError("draft_head trains only a head: leave out adapter")
        if self.processes > 1:
            raise ValueError("draft_head trains in one process: leave out processes")
        if lengths - {"epochs"}:
            raise ValueError(f"{min(lengths)} has no effect with draft_head: leave it out")
        if self.max_new_tokens >= self.max_length:
            raise ValueError(
                f"max_new_tokens must be below max_length {self.max_length}, got "
                f"{self.max_new_tokens}"
            )
