"""How long and how fast to train, and what a run records and reports."""

import math
from dataclasses import dataclass, field
from typing import Literal

from tasc.errors import InputError
from tasc.report.record import Report


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train."""

    epochs: float  # passes over the examples; a fraction stops within one
    micro_batch: int  # examples per forward
    effective_batch: int  # examples per optimizer step, a multiple of ``micro_batch``
    # Stop after this time and let the learning rate end there, in a run of one process. The number
    # of steps then depends on the machine, so such a run is not exactly reproducible.
    minutes: float | None = None
    # Stop after this many evaluations without a better one, and keep the weights of the best. The
    # learning rate falls as if the run went on.
    patience: int | None = None
    shape: Literal["linear", "cosine"] = "linear"  # of the learning rate after the warm-up
    warmup_steps: int = 0
    floor: float = 0.0  # of the learning rate, as a share of its peak
    clip: float = 1.0  # highest gradient norm
    bfloat16: bool = True  # for matrix products (autocast); parameters keep their dtype
    checkpoint_steps: int = 100  # steps between checkpoints (0 = none)
    seed: int = 0  # of the order of the examples and of dropout

    def __post_init__(self) -> None:
        if self.effective_batch % self.micro_batch:
            raise InputError(
                f"effective batch {self.effective_batch} is not a multiple of the batch size "
                f"{self.micro_batch}: choose one that is"
            )

    def epoch_steps(self, examples: int) -> int:
        micro = -(-examples // self.micro_batch)
        return -(-micro // (self.effective_batch // self.micro_batch))

    def steps(self, examples: int) -> int:
        """Return the number of optimizer steps of the run, unless time ends it earlier."""
        return max(1, round(self.epoch_steps(examples) * self.epochs))

    def spent(self, step: int, steps: int, seconds: float) -> float:
        """Return the share of the run that is over, by steps or by time, from 0 to 1."""
        by_time = seconds / (60 * self.minutes) if self.minutes else 0.0
        return min(1.0, max(step / steps, by_time))

    def rate(self, step: int, spent: float) -> float:
        """Return the learning rate of a step as a share of its peak."""
        warm = min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else 1.0
        left = 1 - spent if self.shape == "linear" else (1 + math.cos(math.pi * spent)) / 2
        return warm * (self.floor + (1 - self.floor) * left)


@dataclass(frozen=True)
class Evaluation:
    """The model on held-out examples after ``step`` steps."""

    step: int
    loss: float  # nats per target token
    # Share of examples whose targets are all the arg-max given the true tokens before them, so
    # greedy decoding produces them exactly. For a draft head, share of tokens for which its arg-max
    # is the target model's.
    exact: float


@dataclass
class Journal:
    """The record of a run so far, saved in checkpoints; the same in all of its processes."""

    losses: list[float] = field(default_factory=list)  # of each step
    evaluations: list[dict[str, float]] = field(default_factory=list)  # fields of ``Evaluation``
    tokens: int = 0
    targets: int = 0
    seconds: float = 0.0

    @property
    def best(self) -> int:
        """Index of the best evaluation, the first of equals; 0 without any.

        The best has the highest exact match, to a hundredth, and among equals the lowest loss: the
        loss often rises while outputs still improve, and hardly any output of free text is exact.
        """
        ranks = [(-round(entry["exact"], 2), entry["loss"]) for entry in self.evaluations]
        return ranks.index(min(ranks)) if ranks else 0

    @property
    def waited(self) -> int:
        """Number of evaluations since the best one."""
        return max(0, len(self.evaluations) - 1 - self.best)


class TrainReport(Report):
    """The report of a training run."""

    steps: int
    losses: tuple[float, ...]  # nats per target token, one per step
    evaluations: tuple[Evaluation, ...]
    tokens: int  # read, including prompts but not padding
    targets: int  # tokens learnt from
    seconds: float  # of training and evaluation, including interrupted runs
    trainable_parameters: int
    total_parameters: int
    cut_examples: int  # examples that were too long and lost text
    kept_step: int  # whose weights are kept: the last, or with ``patience`` the best evaluation's
    stopped_early: bool  # whether ``patience`` ended the training


class BaseReport(TrainReport):
    """The same of a base model, and the size of its tokenizer."""

    vocabulary: int
    vocabulary_wanted: int | None
