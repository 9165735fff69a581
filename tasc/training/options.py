"""The options of the commands that train: ``tasc finetune`` and ``tasc base``."""

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from tasc.errors import InputError
from tasc.options.bounds import MOST
from tasc.options.command import Kind, ModelOptions
from tasc.options.fields import LONGEST, AtHome, Device, Dtype, Shell, as_value_error
from tasc.training.adapters.options import AdapterOptions
from tasc.training.core.schedule import Schedule

MOST_SEQUENCES = 2**16  # of a batch
MOST_EPOCHS, MOST_RATE = 10**6, 100
# What an option left out stands for: of adapters, and of a draft head.
_RATE, _HEAD_RATE = 2e-4, 1e-3
_BATCH, _HEAD_BATCH = 64, 16
_VALIDATION = 1000  # examples: enough for a loss, and not more work than the training itself

Tracker = Literal["tensorboard", "wandb", "mlflow"]


class TrainingOptions(ModelOptions):
    """What both commands take."""

    result_file = "training.json"
    flags: ClassVar[tuple[str, ...]] = ("output", "force", "json", "resume")
    other_splits: ClassVar = {"validation": _VALIDATION}
    incidental: ClassVar = {"log_to", "log_dir"}
    # They send figures away, and write beside the output: no recipe of a stranger may.
    by_hand: ClassVar = frozenset({"log_to", "log_dir"})

    epochs: float = Field(
        3.0, gt=0, le=MOST_EPOCHS, description="Passes over the examples; a fraction stops within."
    )
    validation: str | None = Field(
        "validation",
        description="Split for the loss after each epoch (1,000 examples at most), where the "
        "source has another such one.",
    )
    patience: Annotated[int | None, Shell(default="no early stop")] = Field(
        None,
        ge=1,
        le=MOST_EPOCHS,
        description="Stop after so many evaluations without a lower validation loss, and keep the "
        "weights of the lowest.",
    )
    device: Device = "auto"
    checkpoint_steps: int = Field(
        50, ge=0, le=MOST, description="Steps of the optimizer between checkpoints; 0 for none."
    )
    log_to: tuple[Tracker, ...] = Field(
        (), description="Where losses and learning rates go while it trains; may be repeated."
    )
    log_dir: AtHome = Field(
        "tasc-logs", description="With --log-to: folder of logs, in one named as the output."
    )

    @property
    def training(self) -> dict[str, Any]:
        """What makes a run the same as another, which may go on from its checkpoints."""
        return self.model_dump(
            mode="json", exclude={"source", "threads", "merge", *self.incidental}
        )

    @abstractmethod
    def schedule(self, *, bfloat16: bool = True) -> Schedule:
        """Return how long and how fast to train, for the training loop."""

    def check(self, *, held_out: bool) -> None:
        """Raise InputError where training would stop by the loss on what is not ``held_out``."""
        if self.patience is not None and not held_out:
            raise InputError(
                f"patience stops by the validation loss, and {self.source.path} has no split "
                f"{self.validation!r} beside {self.split!r}: name one with --validation, or leave "
                "out --patience"
            )

    @model_validator(mode="after")
    def _trains(self) -> Self:
        with as_value_error():
            self.schedule()
        if self.patience is not None and self.validation is None:
            raise ValueError("patience stops by the validation loss: name a split as validation")
        return self


class BaseOptions(TrainingOptions):
    """Options of ``tasc base``.

    A published model's tokenizer has not seen the outputs of the task at hand, and with
    ``tokenizer_text="prompts"`` neither has this one; "all" fits it to the outputs from the start.
    """

    command = "base"
    products: ClassVar = frozenset({"model", "tokenizer"})
    references: ClassVar = {"tokenizer": "tokenizer"}
    chat_template_of = "tokenizer"

    preset: Literal["pico", "tiny", "small", "medium", "large"] = Field(
        "small", description="Size of the model: 0.13 M, 1 M, 4.5 M, 28 M or 494 M parameters."
    )
    tokenizer: str | None = Field(
        None, description="File, folder or Hub id: take it instead of training one."
    )
    vocabulary: Annotated[int | None, Shell(default="the preset's")] = Field(
        None, ge=300, le=2**20, description="Tokens of the tokenizer that is trained."
    )
    tokenizer_text: Literal["prompts", "all"] = Field(
        "prompts", description="What the tokenizer learns from; all: prompts with their outputs."
    )
    minutes: float | None = Field(None, gt=0, le=10**6, description="Stop after so many minutes.")
    learning_rate: Annotated[float | None, Shell(default="the preset's")] = Field(
        None, gt=0, le=MOST_RATE, description="Peak rate of the cosine schedule."
    )
    block: int = Field(
        256, ge=2, le=LONGEST, description="Tokens of a training row, into which texts are packed."
    )
    batch_blocks: int = Field(
        9, ge=1, le=MOST_SEQUENCES, description="Training rows an optimizer step."
    )
    positions: int = Field(
        4096, ge=2, le=LONGEST, description="Longest sequence that the model is declared to read."
    )

    def schedule(self, *, bfloat16: bool = True) -> Schedule:
        """See TrainingOptions.schedule."""
        return Schedule(
            epochs=self.epochs,
            micro_batch=self.batch_blocks,
            effective_batch=self.batch_blocks,
            minutes=self.minutes,
            shape="cosine",
            warmup_steps=30,
            floor=0.05,
            bfloat16=bfloat16,
            checkpoint_steps=self.checkpoint_steps,
            patience=self.patience,
            seed=self.seed,
        )


class FinetuneOptions(AdapterOptions, TrainingOptions):
    """Options of ``tasc finetune``.

    EAGLE's own rate is 3e-5, for heads as wide as a 7B model; small ones need more.
    """

    command = "finetune"
    references: ClassVar = {
        "model": "model",
        "augmented": "new tokens",
        "tokens_of": "training report",
    }
    chat_template_of = "model"
    incidental: ClassVar = TrainingOptions.incidental | {"processes"}
    flags: ClassVar = (*TrainingOptions.flags, "push_to_hub")
    shared = True

    model: str = Field(description="Model folder or Hub id to start from.")
    augmented: str | None = Field(
        None, description="Folder written by tasc augment: adds its tokens."
    )
    merge: bool = Field(False, description="Also write a plain model folder, adapter merged in.")
    tokens: int | None = Field(
        None,
        ge=1,
        le=10**15,
        description="Train until so many tokens of prompts and outputs were read, not by epochs.",
    )
    tokens_of: str | None = Field(
        None,
        description="Folder of another finetune: train as many tokens, which is equal compute.",
    )
    draft_head: bool = Field(
        False, description="Train a draft head for the model, on the model's own answers."
    )
    learning_rate: Annotated[
        float | None, Shell(default=f"{_RATE:g}; of a draft head {_HEAD_RATE:g}")
    ] = Field(None, gt=0, le=MOST_RATE, description="Peak learning rate of AdamW.")
    embedding_learning_rate: Annotated[float | None, Shell(default="the same")] = Field(
        None, gt=0, le=MOST_RATE, description="Peak rate of new tokens' rows."
    )
    warmup_steps: int = Field(
        0, ge=0, le=MOST, description="Of adapters: steps in which the rate rises to its peak."
    )
    batch_size: int = Field(8, ge=1, le=MOST_SEQUENCES, description="Examples a forward.")
    effective_batch: Annotated[
        int | None, Shell(default=f"{_BATCH}; of a draft head {_HEAD_BATCH}")
    ] = Field(None, ge=1, le=MOST_SEQUENCES, description="Examples an optimizer step.")
    max_length: int = Field(
        512,
        ge=8,
        le=LONGEST,
        description="Tokens of prompt and output together; a longer prompt loses its beginning.",
    )
    max_new_tokens: int = Field(
        256, ge=1, le=LONGEST, description="With --draft-head: longest answer, in tokens."
    )
    repetition_penalty: float = Field(
        1.0,
        ge=1,
        le=1000,
        description="With --draft-head: of the answers; keeps small models from loops.",
    )
    dtype: Dtype = "auto"
    processes: int = Field(
        1,
        ge=1,
        le=1024,
        description="Processes of this machine that share each step's examples; torchrun and "
        "accelerate launch start their own.",
    )

    @property
    def makes(self) -> frozenset[Kind]:
        """See StepOptions.makes: a model where all weights train or the adapter is merged."""
        if self.draft_head:
            return frozenset({"draft head"})
        plain: set[Kind] = {"model"} if self.merge or self.adapter == "none" else set()
        return frozenset({"tokenizer", "training report", *plain})

    @property
    def peak(self) -> float:
        """The peak of the learning rate."""
        return self.learning_rate or (_HEAD_RATE if self.draft_head else _RATE)

    def schedule(self, *, bfloat16: bool = True) -> Schedule:
        """See TrainingOptions.schedule; that of a draft head is a cosine after a few warm steps."""
        whole = self.effective_batch or (_HEAD_BATCH if self.draft_head else _BATCH)
        return Schedule(
            epochs=self.epochs,
            micro_batch=min(self.batch_size, whole),
            effective_batch=whole,
            shape="cosine" if self.draft_head else "linear",
            warmup_steps=20 if self.draft_head else self.warmup_steps,
            floor=0.05 if self.draft_head else 0.0,
            clip=0.5 if self.draft_head else 1.0,
            bfloat16=bfloat16,
            checkpoint_steps=self.checkpoint_steps,
            patience=self.patience,
            seed=self.seed,
        )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.draft_head and (self.augmented or self.merge):
            raise ValueError("draft_head trains a head and no adapter: leave out augmented, merge")
        if self.draft_head and self.adapter == "none":
            raise ValueError("draft_head trains a head and nothing else: leave out adapter")
        if self.draft_head and self.processes > 1:
            raise ValueError("draft_head trains in one process: leave out processes")
        return self

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        lengths = self.model_fields_set & {"epochs", "tokens", "tokens_of"}
        given = {name for name in lengths if getattr(self, name) is not None}
        if len(given) > 1:
            raise ValueError(f"{' and '.join(sorted(given))} each say how long to train: give one")
        if self.draft_head and given - {"epochs"}:
            raise ValueError(f"{min(given)} is for adapters: leave it out with draft_head")
        return self

    @model_validator(mode="after")
    def _room_for_answers(self) -> Self:
        if self.draft_head and self.max_new_tokens >= self.max_length:
            raise ValueError(
                f"max_new_tokens must be from 1 to below max_length {self.max_length}, got "
                f"{self.max_new_tokens}"
            )
        return self
