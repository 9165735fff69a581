"""The outputs, and beside them how likely a teacher without new tokens finds each of their tokens.

Approximate likelihood matching (Minixhofer et al., arXiv 2503.20083, section 3.2): a new token is a
chunk of base tokens, and the student's probability p of it should be the product q of the
teacher's, as a yes or no: the loss is the cross-entropy of Bernoulli(q) and Bernoulli(p). What is
aligned to what is known here, as a new token is made of known base tokens.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from tasc.training.core.batch import IGNORED, Batch
from tasc.training.objectives.language import evaluate, target_logits
from tasc.training.objectives.learner import Learner

_CERTAIN = -1e-6  # log-probability above which 1 - p has no digits left


class DistillOptions(Protocol):
    """What the options of a command say of a teacher."""

    @property
    def teacher_weight(self) -> float:
        """Of the teacher's part in the loss."""


def learner(model: torch.nn.Module, options: DistillOptions) -> Learner:
    """Return what trains ``model`` on its targets and a teacher's probabilities of them."""
    return Learner(model, DistillLoss(options.teacher_weight), evaluate)


@dataclass(frozen=True)
class DistillLoss:
    """(1 - w) times the cross-entropy of targets, and w times that of the teacher's yes or no."""

    weight: float

    def __call__(self, model: torch.nn.Module, batch: Batch, *, bfloat16: bool) -> Tensor:
        """Return the loss in nats, summed over the batch's targets."""
        if batch.teacher is None:
            raise ValueError("the batch has no teacher's log-probabilities")
        logits, labels = target_logits(model, batch, bfloat16=bfloat16)
        yes = log_softmax(logits, -1).gather(1, labels[:, None])[:, 0]
        no = torch.log(-torch.expm1(yes.clamp(max=_CERTAIN)))
        teacher = batch.teacher[batch.labels != IGNORED].exp()
        matched = teacher * yes + (1 - teacher) * no
        return -((1 - self.weight) * yes + self.weight * matched).sum()
