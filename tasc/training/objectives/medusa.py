"""Medusa's objective: each head predicts a token further ahead."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from tasc.models.medusa import new_medusa
from tasc.training.core.batch import IGNORED, Batch
from tasc.training.objectives import MEDUSA_HEADS
from tasc.training.objectives.heads import HeadLoss
from tasc.training.objectives.learner import HeadOptions, Learner
from tasc.training.objectives.sampled import Columns


def learner(model: PreTrainedModel, options: HeadOptions) -> Learner:
    """Return what trains new heads for ``model``."""
    return MedusaLoss(model).learner(new_medusa(model, options.heads or MEDUSA_HEADS))


class MedusaLoss(HeadLoss):
    """Medusa-1's: the cross-entropy of the tokens themselves, head k's weighted 0.8 to the k.

    Cai et al., "Medusa" (2024), section 2.2.1, equation 1; the weights sum to 1 here. Head k (from
    1) reads the state at i and learns token i + 1 + k, where token i + 1 is an output's, too:
    drafts begin behind that.
    """

    DECAY = 0.8

    def states(self, head: nn.Module, batch: Batch, hidden: Tensor) -> tuple[Tensor, ...]:
        """See HeadLoss.states; more are the weights (N,)."""
        read, labels = hidden[:, :-2], batch.labels[:, 1:]
        begun = labels[:, :-1] != IGNORED  # (B, L - 2): token i + 1 is an output's
        predicted = head(read[begun])  # (heads, n, d)
        ahead = nn.functional.pad(labels[:, 1:], (0, len(predicted) - 1), value=IGNORED)
        tokens = ahead.unfold(1, len(predicted), 1)[begun].T  # (heads, n)
        weights = self.DECAY ** torch.arange(1, len(predicted) + 1, device=predicted.device)
        weights = weights / weights.sum()
        wanted = tokens != IGNORED
        return predicted[wanted], tokens[wanted], weights[:, None].expand_as(tokens)[wanted]

    def loss(self, predicted: Tensor, tokens: Tensor, more: Tensor) -> Tensor:
        """See HeadLoss.loss."""
        columns = Columns(tokens, self.lm_head.weight.shape[0])
        logits = columns.logits(self.lm_head, predicted)
        each = cross_entropy(logits, columns.positions(tokens), reduction="none")
        return (more * each).sum()
