"""What the objectives of draft heads share: the target that they learn from, and evaluation."""

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tasc.training.core.batch import IGNORED, Batch, Sequences, collate
from tasc.training.core.schedule import Evaluation
from tasc.training.objectives.learner import Learner

_ROWS = 256  # states whose logits over the whole vocabulary are made at once


class HeadLoss(ABC):
    """The objective of a head for one target, whose parameters stay as they are."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Learn from ``model``."""
        self.model = model
        self.embedding: nn.Module = model.get_input_embeddings()
        self.lm_head: nn.Linear = model.get_output_embeddings()

    @abstractmethod
    def states(self, head: nn.Module, batch: Batch, hidden: Tensor) -> tuple[Tensor, ...]:
        """Return the head's states (N, d), the tokens (N,) that they should lead to, and more.

        ``hidden`` (B, L, d) are the target's states in ``batch``; what is more goes to ``loss``.
        """

    @abstractmethod
    def loss(self, predicted: Tensor, tokens: Tensor, more: Tensor) -> Tensor:
        """Return the loss in nats, summed over what ``states`` returned."""

    def __call__(self, model: nn.Module, batch: Batch, *, bfloat16: bool) -> Tensor:
        """Return the loss in nats, summed over the states that lead to targets."""
        with self._precision(batch, bfloat16):
            return self.loss(*self.states(model, batch, self._hidden(batch)))

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, data: Sequences, rows_at_once: int, step: int, *, bfloat16: bool
    ) -> Evaluation:
        """Return the loss a target, and how often the head's likeliest token is the target's."""
        was_training = model.training
        model.eval()
        order = np.argsort(data.lengths, kind="stable")
        total, agreed, count, targets = 0.0, 0, 0, 0
        for start in range(0, len(order), rows_at_once):
            batch = collate(data, order[start : start + rows_at_once]).to(
                self.lm_head.weight.device
            )
            with self._precision(batch, bfloat16):
                predicted, tokens, more = self.states(model, batch, self._hidden(batch))
                total += float(self.loss(predicted, tokens, more))
                for some in range(0, len(predicted), _ROWS):
                    rows = slice(some, some + _ROWS)
                    agreed += int((self._best(predicted[rows]) == tokens[rows]).sum())
            count += len(predicted)
            targets += int((batch.labels != IGNORED).sum())
        model.train(was_training)
        return Evaluation(step, total / max(1, targets), agreed / max(1, count))

    @torch.no_grad()
    def _hidden(self, batch: Batch) -> Tensor:
        body: nn.Module = self.model.base_model
        hidden: Tensor = body(input_ids=batch.input_ids, use_cache=False).last_hidden_state
        return hidden.float()

    def _best(self, states: Tensor) -> Tensor:
        best: Tensor = self.lm_head(states.to(self.lm_head.weight.dtype)).argmax(-1)
        return best

    @staticmethod
    def _precision(batch: Batch, bfloat16: bool) -> torch.autocast:
        return torch.autocast(batch.input_ids.device.type, torch.bfloat16, enabled=bfloat16)

    def learner(self, head: nn.Module) -> Learner:
        """Return what trains ``head``, in float32."""
        return Learner(head.float(), self, self.evaluate)
