"""How long and how fast to train, and what a run reports."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tasc.errors import InputError


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train."""

    epochs: float  # passes over the data; a fraction stops within one
    micro_batch: int  # rows per forward
    effective_batch: int  # rows per optimiser step, a multiple of ``micro_batch``
    # Stop by then, and let the learning rate end there. The number of steps then depends on
    # the machine, so such a run does not repeat exactly.
    minutes: float | None = None
    # Stop after so many evaluations without a lower loss, and keep the weights of the lowest; the
    # learning rate falls as if the run went on.
    patience: int | None = None
    # Of the learning rate after ``warmup_steps``, down to ``floor`` of its peak.
    shape: Literal["linear", "cosine"] = "linear"
    warmup_steps: int = 0
    floor: float = 0.0
    clip: float = 1.0  # highest gradient norm
    # Run matrix products in bfloat16 (torch autocast); parameters stay as they are.
    bfloat16: bool = True
    checkpoint_steps: int = 100  # steps between checkpoints, 0 for none
    seed: int = 0  # of the order of rows and of dropout

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("epochs", "micro_batch", "effective_batch", "clip"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.minutes is not None and self.minutes <= 0:
            raise InputError(f"minutes must be above 0, got {self.minutes}")
        if self.patience is not None and self.patience < 1:
            raise InputError(f"patience must be 1 or more, got {self.patience}")
        if self.effective_batch % self.micro_batch:
            raise InputError(
                f"effective batch {self.effective_batch} is no multiple of the batch size "
                f"{self.micro_batch}: choose one that is"
            )
        for name in ("warmup_steps", "checkpoint_steps", "seed", "floor"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} cannot be negative, got {getattr(self, name)}")

    def epoch_steps(self, rows: int) -> int:
        """Return the optimiser steps of one pass over ``rows`` rows."""
        micro = -(-rows // self.micro_batch)
        return -(-micro // (self.effective_batch // self.micro_batch))

    def steps(self, rows: int) -> int:
        """Return the optimiser steps of the whole run, where time does not end it before."""
        return max(1, round(self.epoch_steps(rows) * self.epochs))

    def spent(self, step: int, steps: int, seconds: float) -> float:
        """Return the part of the run that is over, by steps or by time, from 0 to 1."""
        by_time = seconds / (60 * self.minutes) if self.minutes else 0.0
        return min(1.0, max(step / steps, by_time))

    def rate(self, step: int, spent: float) -> float:
        """Return the learning rate of a step as a part of its peak."""
        warm = min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else 1.0
        left = 1 - spent if self.shape == "linear" else (1 + math.cos(math.pi * spent)) / 2
        return warm * (self.floor + (1 - self.floor) * left)


@dataclass(frozen=True)
class Evaluation:
    """The model on held-out rows after ``step`` steps.

    Attributes:
        loss: nats per target token.
        exact: share of rows all of whose targets are the arg-max given the true tokens before
            them: what greedy decoding would have produced token for token. Of a draft head: share
            of tokens for which its arg-max is the target's.
    """

    step: int
    loss: float
    exact: float


@dataclass(frozen=True)
class TrainReport:
    """What a training run did.

    Attributes:
        losses: nats per target token, one per step.
        tokens: tokens read, prompts included and padding not.
        targets: tokens learnt from.
        seconds: of training and evaluation, over all runs where one was resumed.
        cut_examples: examples longer than allowed, which lost text.
        kept_step: the step after which the weights were as they are kept: the last one, or with
            ``patience`` the one with the lowest validation loss.
        stopped_early: whether ``patience`` ended the training before its time.
    """

    steps: int
    losses: tuple[float, ...]
    evaluations: tuple[Evaluation, ...]
    tokens: int
    targets: int
    seconds: float
    trainable_parameters: int
    total_parameters: int
    cut_examples: int
    kept_step: int
    stopped_early: bool

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class BaseReport(TrainReport):
    """The same of a base model, and the size of its tokenizer."""

    vocabulary: int
    vocabulary_wanted: int | None
