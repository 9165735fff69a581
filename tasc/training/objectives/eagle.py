"""EAGLE's objective: the target's next hidden state, and the distribution made of it."""

import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss
from transformers import PreTrainedModel

from tasc.models.draft_head import new_head
from tasc.training.core.batch import IGNORED, Batch
from tasc.training.objectives.heads import HeadLoss
from tasc.training.objectives.learner import HeadOptions, Learner
from tasc.training.objectives.sampled import Columns


def learner(model: PreTrainedModel, options: HeadOptions) -> Learner:
    """Return what trains a new head for ``model``."""
    return EagleLoss(model).learner(new_head(model, options.seed))


class EagleLoss(HeadLoss):
    """EAGLE's: the target's next hidden state, and the distribution the LM head makes of it.

    Li et al., "EAGLE" (2024), section 4.2: Smooth L1 between the states plus 0.1 times the
    cross-entropy between the distributions, with uniform noise on the states that the head reads,
    since while drafting it reads its own. Departs: the distributions count ``DISTRIBUTION_WEIGHT``
    = 1, as a state of the right size is no use with the wrong arg-max, above all in a small model.
    """

    DISTRIBUTION_WEIGHT = 1.0
    NOISE = 0.1

    def states(self, head: nn.Module, batch: Batch, hidden: Tensor) -> tuple[Tensor, ...]:
        """See HeadLoss.states; more are the target's states (N, d)."""
        read = hidden[:, :-2]
        if head.training:
            read = read + (2 * torch.rand_like(read) - 1) * self.NOISE
        embedded = self.embedding(batch.input_ids[:, 1:-1])
        positions = torch.arange(read.shape[1], device=read.device).expand(len(read), -1)
        wanted = batch.labels[:, 2:] != IGNORED
        predicted = head(embedded, read, positions)[wanted]
        return predicted, batch.labels[:, 2:][wanted], hidden[:, 1:-1][wanted]

    def loss(self, predicted: Tensor, tokens: Tensor, more: Tensor) -> Tensor:
        """See HeadLoss.loss."""
        columns = Columns(tokens, self.lm_head.weight.shape[0])
        with torch.no_grad():
            distribution = columns.logits(self.lm_head, more).softmax(-1)
        cross = -(distribution * columns.logits(self.lm_head, predicted).log_softmax(-1)).sum()
        states = smooth_l1_loss(predicted.float(), more.float(), reduction="none").mean(-1).sum()
        return states + self.DISTRIBUTION_WEIGHT * cross
