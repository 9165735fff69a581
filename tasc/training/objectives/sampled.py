"""Softmax over part of a large vocabulary, so that 150,000 rows do not dominate training time.

Importance sampling (Bengio and Senécal, "Adaptive importance sampling to accelerate training of a
neural probabilistic language model", 2008): the normaliser sums the tokens of the batch and a
uniform sample that represents all others. Its expectation is the full normaliser.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tasc.training.core.batch import IGNORED, Batch
from tasc.training.objectives import language
from tasc.training.objectives.learner import Learner, innermost

SAMPLED_FROM = 1 << 15  # vocabularies from this size on are sampled
DRAWN = 4096


def learner(model: nn.Module) -> Learner:
    """Train ``model`` on its targets; sample the softmax of a large vocabulary."""
    size = innermost(model).get_output_embeddings().weight.shape[0]  # type: ignore[operator]
    return language.learner(model, sampled_loss if size >= SAMPLED_FROM else None)


class Columns:
    """Part of a vocabulary, with the log of the number of tokens that each column represents."""

    def __init__(self, present: Tensor, vocabulary: int) -> None:
        """Take the tokens of ``present`` (any shape, int64), and draw DRAWN of all others.

        Take all of a vocabulary below SAMPLED_FROM. Draws come from torch's generator, so that a
        resumed run repeats them.
        """
        if vocabulary < SAMPLED_FROM:
            present = torch.arange(vocabulary, device=present.device)
        certain: Tensor = torch.unique(present)
        drawn = torch.randint(vocabulary, (DRAWN,), device=certain.device)
        drawn = drawn[~torch.isin(drawn, certain)]
        self.certain = certain
        self.ids = torch.cat([certain, drawn])
        self.weight = torch.zeros(len(self.ids), device=certain.device)
        if len(drawn):
            self.weight[len(certain) :] = math.log((vocabulary - len(certain)) / len(drawn))

    def logits(self, head: nn.Linear, hidden: Tensor) -> Tensor:
        """Return logits (N, n) float32 of ``hidden`` (N, d); their softmax estimates the full."""
        bias = None if head.bias is None else head.bias[self.ids]
        rows = nn.functional.linear(hidden.to(head.weight.dtype), head.weight[self.ids], bias)
        return rows.float() + self.weight

    def positions(self, labels: Tensor) -> Tensor:
        """Return the columns (N,) of ``labels`` (N,), all of which were present."""
        return torch.searchsorted(self.certain, labels)


def sampled_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Estimate ``language.token_loss``; exact for vocabularies below SAMPLED_FROM."""
    inner = innermost(model)
    options = {} if batch.position_ids is None else {"position_ids": batch.position_ids}
    out = inner.base_model(input_ids=batch.input_ids, use_cache=False, **options)  # type: ignore[operator]
    labels = batch.labels[:, 1:]
    wanted = labels != IGNORED
    head: nn.Linear = inner.get_output_embeddings()  # type: ignore[operator]
    columns = Columns(labels[wanted], head.weight.shape[0])
    logits = columns.logits(head, out.last_hidden_state[:, :-1][wanted])
    return cross_entropy(logits, columns.positions(labels[wanted]), reduction="sum")
