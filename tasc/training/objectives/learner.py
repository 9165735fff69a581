"""The interface between an objective and the training loop."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from tasc.training.core.batch import Batch, Sequences
from tasc.training.core.schedule import Evaluation


class Loss(Protocol):
    """The training loss, summed over the batch's targets."""

    def __call__(self, model: nn.Module, batch: Batch, *, bfloat16: bool) -> Tensor:
        """Return a scalar with a gradient."""


class Evaluate(Protocol):
    """Evaluation on held-out sequences, at most ``rows_at_once`` per forward."""

    def __call__(
        self, model: nn.Module, data: Sequences, rows_at_once: int, step: int, *, bfloat16: bool
    ) -> Evaluation:
        """Return the result after ``step`` steps; leave the model in its mode."""


@dataclass(frozen=True)
class Learner:
    """A module to train, its loss, and its evaluation."""

    module: nn.Module
    loss: Loss
    score: Evaluate
