"""What draft heads learn from their target: the loop's objectives, one for each kind of head.

Of a large vocabulary laws are compared over the tokens at hand and a sample of the others
(``sampled``).
"""

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, smooth_l1_loss
from transformers import PreTrainedModel

from tasc.finetune.batch import IGNORED, Batch, Sequences, collate
from tasc.finetune.sampled import Columns
from tasc.finetune.schedule import Evaluation

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
    def loss(self, said: Tensor, tokens: Tensor, more: Tensor) -> Tensor:
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
                said, tokens, more = self.states(model, batch, self._hidden(batch))
                total += float(self.loss(said, tokens, more))
                for some in range(0, len(said), _ROWS):
                    rows = slice(some, some + _ROWS)
                    agreed += int((self._best(said[rows]) == tokens[rows]).sum())
            count += len(said)
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


class EagleLoss(HeadLoss):
    """EAGLE's: the target's next hidden state, and the law the LM head makes of it.

    Li et al., "EAGLE" (2024), section 4.2: Smooth L1 between the states plus 0.1 times the
    cross-entropy between the laws, with uniform noise on the states that the head reads, since
    while drafting it reads its own. Departs: the laws count ``LAW_WEIGHT`` = 1, as a state of the
    right size is no use with the wrong arg-max, above all in a small model.
    """

    LAW_WEIGHT = 1.0
    NOISE = 0.1

    def states(self, head: nn.Module, batch: Batch, hidden: Tensor) -> tuple[Tensor, ...]:
        """See HeadLoss.states; more are the target's states (N, d)."""
        read = hidden[:, :-2]
        if head.training:
            read = read + (2 * torch.rand_like(read) - 1) * self.NOISE
        embedded = self.embedding(batch.input_ids[:, 1:-1])
        positions = torch.arange(read.shape[1], device=read.device).expand(len(read), -1)
        wanted = batch.labels[:, 2:] != IGNORED
        said = head(embedded, read, positions)[wanted]
        return said, batch.labels[:, 2:][wanted], hidden[:, 1:-1][wanted]

    def loss(self, said: Tensor, tokens: Tensor, more: Tensor) -> Tensor:
        """See HeadLoss.loss."""
        columns = Columns(tokens, self.lm_head.weight.shape[0])
        with torch.no_grad():
            law = columns.logits(self.lm_head, more).softmax(-1)
        cross = -(law * columns.logits(self.lm_head, said).log_softmax(-1)).sum()
        states = smooth_l1_loss(said.float(), more.float(), reduction="none").mean(-1).sum()
        return states + self.LAW_WEIGHT * cross


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
        said = head(read[begun])  # (heads, n, d)
        ahead = nn.functional.pad(labels[:, 1:], (0, len(said) - 1), value=IGNORED)
        tokens = ahead.unfold(1, len(said), 1)[begun].T  # (heads, n)
        weights = self.DECAY ** torch.arange(1, len(said) + 1, device=said.device)
        weights = weights / weights.sum()
        wanted = tokens != IGNORED
        return said[wanted], tokens[wanted], weights[:, None].expand_as(tokens)[wanted]

    def loss(self, said: Tensor, tokens: Tensor, more: Tensor) -> Tensor:
        """See HeadLoss.loss."""
        columns = Columns(tokens, self.lm_head.weight.shape[0])
        logits = columns.logits(self.lm_head, said)
        each = cross_entropy(logits, columns.places(tokens), reduction="none")
        return (more * each).sum()
