"""The interface between an objective and the training loop."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from tasc.progress import Progress, silent
from tasc.training.core.batch import Batch, Examples
from tasc.training.core.schedule import Evaluation


class Loss(Protocol):
    """The training loss, summed over the batch's targets."""

    def __call__(self, model: nn.Module, batch: Batch, *, bfloat16: bool) -> Tensor:
        """Return a scalar with a gradient."""


class Evaluate(Protocol):
    """Evaluation on held-out examples, at most ``batch_size`` per forward."""

    def __call__(
        self,
        model: nn.Module,
        examples: Examples,
        batch_size: int,
        step: int,
        *,
        bfloat16: bool,
        progress: Progress = silent,
    ) -> Evaluation:
        """Return the result after ``step`` steps; leave the model in its mode."""


@dataclass(frozen=True)
class Learner:
    """A module to train, its loss, and its evaluation."""

    module: nn.Module
    loss: Loss
    score: Evaluate
