"""What a draft head learns: the target's next hidden state, and the law the LM head makes of it.

Li et al., "EAGLE" (2024), section 4.2: Smooth L1 between the states plus 0.1 times the
cross-entropy between the laws, with uniform noise on the states that the head reads, since while
drafting it reads its own. Departs: of a large vocabulary the laws are compared over the tokens at
hand and a sample of the others (``sampled``); and the laws count ``LAW_WEIGHT`` = 1, as a state of
the right size is no use with the wrong arg-max, above all in a small model.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss
from transformers import PreTrainedModel

from tasc.finetune.batch import IGNORED, Batch, Sequences, collate
from tasc.finetune.sampled import Columns
from tasc.finetune.schedule import Evaluation

LAW_WEIGHT = 1.0
NOISE = 0.1
_ROWS = 256  # states whose logits over the whole vocabulary are made at once


class HeadLoss:
    """The objective of a head for one target, whose parameters stay as they are."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Learn from ``model``."""
        self.model = model
        self.embedding: nn.Module = model.get_input_embeddings()
        self.lm_head: nn.Linear = model.get_output_embeddings()

    def __call__(self, model: nn.Module, batch: Batch, *, bfloat16: bool) -> Tensor:
        """Return the loss in nats, summed over the states that lead to targets."""
        with self._precision(batch, bfloat16):
            return self._loss(*self._states(model, batch, NOISE))

    def _loss(self, said: Tensor, true: Tensor, tokens: Tensor) -> Tensor:
        columns = Columns(tokens, self.lm_head.weight.shape[0])
        with torch.no_grad():
            law = columns.logits(self.lm_head, true).softmax(-1)
        cross = -(law * columns.logits(self.lm_head, said).log_softmax(-1)).sum()
        states = smooth_l1_loss(said.float(), true.float(), reduction="none").mean(-1).sum()
        return states + LAW_WEIGHT * cross

    def _states(self, head: nn.Module, batch: Batch, noise: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return the head's states (N, d), the target's, and the tokens (N,) that follow."""
        ids = batch.input_ids
        with torch.no_grad():
            body: nn.Module = self.model.base_model
            hidden = body(input_ids=ids, use_cache=False).last_hidden_state.float()
            embedded = self.embedding(ids[:, 1:-1])
        read = hidden[:, :-2]
        if noise:
            read = read + (2 * torch.rand_like(read) - 1) * noise
        positions = torch.arange(read.shape[1], device=ids.device).expand(len(ids), -1)
        wanted = batch.labels[:, 2:] != IGNORED
        said = head(embedded, read, positions)[wanted]
        return said, hidden[:, 1:-1][wanted], batch.labels[:, 2:][wanted]

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, data: Sequences, rows_at_once: int, step: int, *, bfloat16: bool
    ) -> Evaluation:
        """Return the mean loss and how often the head's likeliest token is the target's."""
        was_training = model.training
        model.eval()
        order = np.argsort(data.lengths, kind="stable")
        total, agreed, count = 0.0, 0, 0
        for start in range(0, len(order), rows_at_once):
            batch = collate(data, order[start : start + rows_at_once]).to(
                self.lm_head.weight.device
            )
            with self._precision(batch, bfloat16):
                said, true, tokens = self._states(model, batch, noise=0.0)
                total += float(self._loss(said, true, tokens))
                for some in range(0, len(said), _ROWS):
                    rows = slice(some, some + _ROWS)
                    agreed += int((self._best(said[rows]) == self._best(true[rows])).sum())
            count += len(said)
        model.train(was_training)
        return Evaluation(step, total / max(1, count), agreed / max(1, count))

    def _best(self, states: Tensor) -> Tensor:
        best: Tensor = self.lm_head(states.to(self.lm_head.weight.dtype)).argmax(-1)
        return best

    @staticmethod
    def _precision(batch: Batch, bfloat16: bool) -> torch.autocast:
        return torch.autocast(batch.input_ids.device.type, torch.bfloat16, enabled=bfloat16)
