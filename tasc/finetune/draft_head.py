"""Training a draft head on what its target says: EAGLE's, or the heads of Medusa."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from transformers import GenerationConfig, PreTrainedModel

from tasc.data.corpus import Corpus
from tasc.data.tokenizer import load_tokenizer
from tasc.errors import InputError
from tasc.finetune.batch import Sequences
from tasc.finetune.head_loss import EagleLoss, HeadLoss, MedusaLoss
from tasc.finetune.loop import Run
from tasc.finetune.own_outputs import own_outputs
from tasc.finetune.schedule import Schedule, TrainReport
from tasc.models.draft_head import DraftHead, new_head
from tasc.models.load import Device, Dtype, device_has_bfloat16, load_model
from tasc.models.medusa import MedusaHeads, new_medusa
from tasc.models.quiet import quiet
from tasc.models.target import check_stateless
from tasc.progress import Progress, silent

Kind = Literal["eagle", "medusa"]


@dataclass(frozen=True)
class HeadOptions:
    """Options of training a draft head.

    Attributes:
        kind: "eagle", one layer that reads its own states, or "medusa", heads that do not.
        heads: how many heads of Medusa, which is how many tokens ahead they see.
        epochs: passes over the target's outputs.
        learning_rate: peak of the cosine schedule. EAGLE's own is 3e-5, for heads as wide as a 7B
            model; small ones need more.
        batch_size: sequences a forward.
        effective_batch: sequences an optimiser step.
        max_length: tokens of a prompt and what follows; a longer prompt loses its beginning.
        max_new_tokens: the longest answer that the target writes.
        repetition_penalty: of the answers, as in transformers. Small models that decode greedily
            end in loops, from which there is little to learn.
        dtype: of the target.
        device: where to train.
        checkpoint_steps: optimiser steps between checkpoints, 0 for none.
        seed: of the weights, the order and the noise.
    """

    kind: Kind = "eagle"
    heads: int = 4
    epochs: float = 3.0
    learning_rate: float = 1e-3
    batch_size: int = 8
    effective_batch: int = 16
    max_length: int = 512
    max_new_tokens: int = 256
    repetition_penalty: float = 1.0
    dtype: Dtype = "auto"
    device: Device = "auto"
    checkpoint_steps: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the values."""
        if self.heads < 1:
            raise InputError(f"heads must be at least 1, got {self.heads}")
        if self.learning_rate <= 0:
            raise InputError(f"learning_rate must be above 0, got {self.learning_rate}")
        if not 1 <= self.max_new_tokens < self.max_length:
            raise InputError(
                f"max_new_tokens must be from 1 to below max_length {self.max_length}, got "
                f"{self.max_new_tokens}"
            )
        self.schedule()

    def schedule(self, *, bfloat16: bool = True) -> Schedule:
        """Return the part of the options that the training loop reads."""
        return Schedule(
            epochs=self.epochs,
            micro_batch=min(self.batch_size, self.effective_batch),
            effective_batch=self.effective_batch,
            shape="cosine",
            warmup_steps=20,
            floor=0.05,
            clip=0.5,
            bfloat16=bfloat16,
            checkpoint_steps=self.checkpoint_steps,
            seed=self.seed,
        )


_HELD_OUT = 128


@dataclass(frozen=True, eq=False)
class HeadResult:
    """A trained head, still in memory."""

    head: DraftHead | MedusaHeads
    report: TrainReport

    def save(self, folder: Path) -> None:
        """Write a folder that ``tasc bench --draft-head`` reads, and loaders of EAGLE its kind."""
        self.head.save(folder)


def train_head(
    model_path: str,
    train: Corpus,
    validation: Corpus | None,
    options: HeadOptions,
    *,
    work: Path,
    resume: bool = False,
    progress: Progress = silent,
) -> HeadResult:
    """Let a model answer a corpus's prompts, and train a head to draft these answers.

    The target is frozen. Its answers are greedy, and kept in ``work`` like the checkpoints, so a
    killed run resumes within either part.

    Args:
        model_path: the target's folder or Hub id.
        train: prompts to answer; its own outputs are not looked at.
        validation: prompts for the loss after each epoch; the first 128 are answered.
        options: of the training.
        work: folder for answers and checkpoints.
        resume: go on from what is there.
        progress: called after each batch of answers and each step.
    """
    tokenizer = load_tokenizer(model_path)
    progress("loading the model", 0, 0)
    model = load_model(model_path, options.dtype, options.device).requires_grad_(False)
    check_stateless(model)
    _check_positions(model, options)
    head = (
        new_medusa(model, options.heads)
        if options.kind == "medusa"
        else new_head(model, options.seed)
    ).float()

    def answers(prompts: Sequence[str], name: str) -> Sequences:
        return own_outputs(
            model,
            tokenizer,
            prompts,
            work / name,
            max_length=options.max_length,
            config=GenerationConfig(
                max_new_tokens=options.max_new_tokens,
                repetition_penalty=options.repetition_penalty,
                do_sample=False,
                eos_token_id=tokenizer.eos_id,
                pad_token_id=tokenizer.eos_id,
            ),
            resume=resume,
            progress=progress,
        )

    objective: HeadLoss = (MedusaLoss if options.kind == "medusa" else EagleLoss)(model)
    run = Run(
        head,
        [{"params": list(head.parameters()), "lr": options.learning_rate, "betas": (0.9, 0.95)}],
        answers(train.prompts, "answers"),
        options.schedule(bfloat16=device_has_bfloat16(model.device)),
        work=work,
        name=f"draft head {model_path} {asdict(options)}",
        loss=objective,
        score=objective.evaluate,
    )
    held_out = None
    if validation is not None:
        held_out = answers(validation.prompts[:_HELD_OUT], "held-out")
    with quiet():
        report = run.train(held_out, resume=resume, progress=progress)
    return HeadResult(head.to(model.dtype), report)


def _check_positions(model: PreTrainedModel, options: HeadOptions) -> None:
    """Refuse prompts and answers that are longer than the model reads."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if positions and options.max_length > positions:
        raise InputError(
            f"max_length {options.max_length} exceeds the model's {positions} positions: lower "
            "--max-length"
        )
