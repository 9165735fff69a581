"""Fine-tuning a model to a task, with or without new tokens: section 4.2 and App. B.2."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from peft import PeftModel
from transformers import PreTrainedModel

from tasc.data.corpus import Corpus
from tasc.data.tokenizer import LoadedTokenizer, load_tokenizer
from tasc.errors import InputError
from tasc.finetune import qlora
from tasc.finetune.batch import Sequences, example_sequences
from tasc.finetune.folder import save_model, save_tokenizer
from tasc.finetune.loop import Run
from tasc.finetune.schedule import Schedule, TrainReport
from tasc.models.embeddings import NewRow, extend_embeddings
from tasc.models.load import Device, Dtype, device_has_bfloat16, load_model
from tasc.models.quiet import quiet
from tasc.progress import Progress, silent


@dataclass(frozen=True)
class TrainOptions:
    """Options of a fine-tuning; the defaults are those of App. B.2.

    Attributes:
        epochs: passes over the examples.
        learning_rate: peak of the linear schedule.
        row_learning_rate: peak for the rows of new tokens, ``learning_rate`` where None. These
            rows start as a mean and have further to go than the adapters, above all in a small
            model: 10 to 50 times the adapters' rate.
        batch_size: examples per forward. Larger is faster where memory allows; the result is the
            same up to the order of examples.
        effective_batch: examples per optimiser step.
        max_length: tokens of an example; what is longer loses the beginning of its prompt.
        rank: of the adapters.
        alpha: adapters are scaled by alpha / rank.
        dropout: before the adapters.
        quantize: hold the base model's linear layers in 4 bits (NF4).
        dtype: of what is not quantised; "float32" also computes in float32.
        device: where to train.
        gradient_checkpointing: recompute activations instead of keeping them; less memory.
        checkpoint_steps: optimiser steps between checkpoints, 0 for none.
        seed: of adapters, order and dropout.
    """

    epochs: float = 3.0
    learning_rate: float = 2e-4
    row_learning_rate: float | None = None
    batch_size: int = 8
    effective_batch: int = 64
    warmup_steps: int = 0
    max_length: int = 512
    rank: int = 16
    alpha: int = 16
    dropout: float = 0.2
    quantize: bool = True
    dtype: Dtype = "auto"
    device: Device = "auto"
    gradient_checkpointing: bool = False
    checkpoint_steps: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("learning_rate", "rank", "alpha"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.row_learning_rate is not None and self.row_learning_rate <= 0:
            raise InputError(f"row_learning_rate must be above 0, got {self.row_learning_rate}")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout must be at least 0 and below 1, got {self.dropout}")
        if self.max_length < 2:
            raise InputError(f"max_length must be 2 or more, got {self.max_length}")
        self.schedule()

    def schedule(self, *, bfloat16: bool = True) -> Schedule:
        """Return the part of the options that the training loop reads."""
        return Schedule(
            epochs=self.epochs,
            micro_batch=min(self.batch_size, self.effective_batch),
            effective_batch=self.effective_batch,
            warmup_steps=self.warmup_steps,
            bfloat16=bfloat16,
            checkpoint_steps=self.checkpoint_steps,
            seed=self.seed,
        )


@dataclass(frozen=True, eq=False)
class FinetuneResult:
    """A trained adapter on its base model, still in memory.

    Attributes:
        model: the adapted model, in evaluation mode.
        report: how the training went.
    """

    model: PeftModel
    report: TrainReport
    tokenizer: LoadedTokenizer
    added: tuple[NewRow, ...]
    base: str

    def save_adapter(self, folder: Path) -> None:
        """Write the adapter as PEFT does (safetensors), and the tokenizer beside it.

        To load it with PEFT alone, resize the base model's embeddings to the tokenizer's length
        first; the adapter holds the new rows themselves.
        """
        folder.mkdir(parents=True, exist_ok=True)
        # Not "auto", which asks the Hub whether the vocabulary grew and saves whole matrices.
        self.model.save_pretrained(folder, save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)  # PEFT's model card, an empty form
        save_tokenizer(self.tokenizer, folder)

    def save_merged(self, folder: Path, dtype: Dtype = "auto") -> None:
        """Write a plain model with the adapter in its weights, and the tokenizer beside it.

        ``AutoModelForCausalLM`` and ``AutoTokenizer`` load it as any other; "auto" is the dtype of
        the base model.
        """
        save_model(self.merged(dtype), self.tokenizer, folder)

    def merged(self, dtype: Dtype = "auto") -> PreTrainedModel:
        """Return the plain model of ``save_merged``."""
        plain = load_model(self.base, dtype=dtype)
        extend_embeddings(plain, self.added, _vocabulary_size(self.tokenizer))
        qlora.merge_into(self.model, plain)
        return plain


def finetune(
    model_path: str,
    tokenizer_path: str,
    added: Sequence[NewRow],
    train: Corpus,
    validation: Corpus | None,
    options: TrainOptions,
    *,
    work: Path,
    resume: bool = False,
    progress: Progress = silent,
) -> FinetuneResult:
    """Train adapters, and the rows of new tokens, to produce a corpus's outputs from its prompts.

    Args:
        model_path: the base model's folder or Hub id.
        tokenizer_path: its tokenizer, or the augmented one.
        added: the tokens that the augmented one has beyond the model's own; their rows start as
            the mean of their base tokens' rows.
        train: examples to learn from; the loss is on outputs and end tokens only.
        validation: examples to evaluate after each epoch.
        options: of the training.
        work: folder for checkpoints.
        resume: go on from the newest checkpoint there.
        progress: called after each step.

    Raises:
        InputError: model, tokenizer and new tokens do not belong together, or checkpoints belong
            to another run.
    """
    tokenizer = load_tokenizer(tokenizer_path)
    progress("loading the model", 0, 0)
    model = load_model(model_path, options.dtype, options.device, options.quantize)
    _check_vocabulary(model, tokenizer, added)
    extend_embeddings(model, added, _vocabulary_size(tokenizer))
    length = _longest(model, options.max_length)
    rows = _sequences(tokenizer, train, length)
    held_out = None if validation is None else _sequences(tokenizer, validation, length)
    if options.gradient_checkpointing:
        _recompute_activations(model)
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        adapted = qlora.attach(
            model,
            [row.new_id for row in added],
            rank=options.rank,
            alpha=options.alpha,
            dropout=options.dropout,
        )
    rate = options.learning_rate
    run = Run(
        adapted,
        qlora.parameter_groups(adapted, rate, options.row_learning_rate or rate),
        rows,
        options.schedule(bfloat16=options.dtype != "float32" and device_has_bfloat16(model.device)),
        work=work,
        name=f"{model_path} {asdict(options)}",
    )
    with quiet():
        report = run.train(held_out, resume=resume, progress=progress)
    return FinetuneResult(adapted, report, tokenizer, tuple(added), model_path)


def _sequences(tokenizer: LoadedTokenizer, corpus: Corpus, length: int) -> Sequences:
    return example_sequences(tokenizer, corpus.prompts, corpus.outputs, length)


def _recompute_activations(model: PreTrainedModel) -> None:
    with quiet():  # named otherwise from transformers 5.20 on
        model.gradient_checkpointing_enable({"use_reentrant": False})


def _vocabulary_size(tokenizer: LoadedTokenizer) -> int:
    return len(tokenizer.vocabulary())


def _longest(model: PreTrainedModel, max_length: int) -> int:
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if positions is not None and positions < 2:
        raise InputError(
            f"the model reads {positions} positions by its config.json, and an example has two or "
            "more: choose another model"
        )
    return min(max_length, positions) if positions else max_length


def _check_vocabulary(
    model: PreTrainedModel, tokenizer: LoadedTokenizer, added: Sequence[NewRow]
) -> None:
    """Refuse a tokenizer with ids that the model does not have and that are not being added."""
    known = model.get_input_embeddings().weight.shape[0]
    size = _vocabulary_size(tokenizer)
    new = {row.new_id for row in added}
    unknown = [i for i in range(known, size) if i not in new]
    if unknown:
        raise InputError(
            f"tokenizer {tokenizer.path} has {size} tokens and the model {known} rows, and token "
            f"{unknown[0]} is not among the {len(new)} new ones: pass the model's own tokenizer, "
            "or the one that tasc augment made from it"
        )
    beyond = [i for i in new if i >= size]
    if beyond:
        raise InputError(
            f"tokenizer {tokenizer.path} has {size} tokens and no id {beyond[0]}: "
            "make the new tokens for this one with tasc augment"
        )
