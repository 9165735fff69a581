"""What an objective gives to the training loop."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from tasc.training.core.batch import Batch, Sequences
from tasc.training.core.schedule import Evaluation


class Loss(Protocol):
    """What a run minimises: a sum over the batch's targets."""

    def __call__(self, model: nn.Module, batch: Batch, *, bfloat16: bool) -> Tensor:
        """Return a scalar with a gradient."""


class Evaluate(Protocol):
    """How a run looks at held-out sequences, ``rows_at_once`` of them at most in a forward."""

    def __call__(
        self, model: nn.Module, data: Sequences, rows_at_once: int, step: int, *, bfloat16: bool
    ) -> Evaluation:
        """Return what was found after ``step`` steps; the model's mode stays."""


@dataclass(frozen=True)
class Learner:
    """A module to train, what it minimises, and how it is evaluated."""

    module: nn.Module
    loss: Loss
    score: Evaluate
