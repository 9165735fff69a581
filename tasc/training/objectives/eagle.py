"""EAGLE's objective: the target's next hidden state and the distribution derived from it."""

import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss
from transformers import PreTrainedModel

from tasc.models.draft_head import DraftHead
from tasc.training.core.batch import IGNORED, Batch
from tasc.training.objectives.learner import Learner
from tasc.training.objectives.sampled import Columns

_ROWS = 256  # states whose logits over the whole vocabulary are in memory at once


def learner(model: PreTrainedModel, head: DraftHead) -> Learner:
    """Train ``head`` in float32 to draft for ``model``."""
    loss = EagleLoss(model)
    return Learner(head.float(), loss, loss.score)


class EagleLoss:
    """Distance between the head's states and the target's, and between their distributions.

    Li et al., "EAGLE" (2024), section 4.2: Smooth L1 between the states plus 0.1 times the
    cross-entropy between the distributions. Uniform noise on the input states prepares the head
    for reading its own states while drafting. Departs: the cross-entropy has the weight 1, because
    a close state with the wrong arg-max is useless, above all in a small model.
    """

    NOISE = 0.1

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.embedding: nn.Module = model.get_input_embeddings()
        self.lm_head: nn.Linear = model.get_output_embeddings()

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the loss in nats, summed over the states that lead to targets."""
        return self._loss(*self._states(model, batch))

    def score(self, model: nn.Module, batch: Batch) -> tuple[float, int, int, int]:
        """Return the loss, the targets, and how often the likeliest token is the target's."""
        predicted, tokens, true = self._states(model, batch)
        loss, agreed = float(self._loss(predicted, tokens, true)), 0
        pieces = (torch.split(rows, _ROWS) for rows in (predicted, tokens))
        for some, wanted in zip(*pieces, strict=True):
            logits = self.lm_head(some.to(self.lm_head.weight.dtype))
            agreed += int((logits.argmax(-1) == wanted).sum())
        return loss, int((batch.labels != IGNORED).sum()), agreed, len(predicted)

    def _states(self, head: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return the head's states (N, d), the tokens (N,) to predict, and the target's states."""
        with torch.no_grad():
            body: nn.Module = self.model.base_model
            hidden = body(input_ids=batch.input_ids, use_cache=False).last_hidden_state.float()
        read = hidden[:, :-2]
        if head.training:
            read = read + (2 * torch.rand_like(read) - 1) * self.NOISE
        embedded = self.embedding(batch.input_ids[:, 1:-1])
        positions = torch.arange(read.shape[1], device=read.device).expand(len(read), -1)
        wanted = batch.labels[:, 2:] != IGNORED
        predicted = head(embedded, read, positions)[wanted]
        return predicted, batch.labels[:, 2:][wanted], hidden[:, 1:-1][wanted]

    def _loss(self, predicted: Tensor, tokens: Tensor, true: Tensor) -> Tensor:
        columns = Columns(tokens, self.lm_head.weight.shape[0])
        with torch.no_grad():
            distribution = columns.logits(self.lm_head, true).softmax(-1)
        cross = -(distribution * columns.logits(self.lm_head, predicted).log_softmax(-1)).sum()
        states = smooth_l1_loss(predicted.float(), true.float(), reduction="none").mean(-1).sum()
        return states + cross
