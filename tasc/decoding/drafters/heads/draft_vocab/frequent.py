"""FR-Spec: a draft model scores only the most frequent tokens (Zhao et al., section 3.2, eq. 4)."""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tasc.analysis.token_counts import load_counts
from tasc.decoding.core.resources import Resources
from tasc.decoding.drafters.heads.draft_vocab.full import Unchanging
from tasc.errors import InputError
from tasc.models.packed import PackedLinear


def token_counts(resources: Resources, vocabulary: int) -> np.ndarray:
    """Return the count of each target token, (V,) int64, from a counts file or from the outputs.

    Embedding rows without a token count 0. Files do not count the end token, so it is treated as
    the most frequent one. Raises InputError, and the errors of ``load_counts``.
    """
    if resources.token_counts is None:
        return corpus_counts(resources.outputs, resources.end, vocabulary)
    if resources.tokenizer is None:
        raise InputError("token counts need the target's tokenizer: pass it, too")
    counts = load_counts(resources.token_counts, resources.tokenizer)[:vocabulary]
    counts = np.pad(counts, (0, vocabulary - len(counts)))
    counts[resources.end] = counts.max() + 1
    return counts


def corpus_counts(outputs: Sequence[np.ndarray], end: int, vocabulary: int) -> np.ndarray:
    """Count the tokens of ``outputs``, each (T_i,) int, with ``end`` after each: (V,) int64."""
    tokens = np.concatenate([np.empty(0, np.int64), *outputs])
    counts = np.bincount(tokens, minlength=vocabulary)[:vocabulary]
    counts[end] += max(1, len(outputs))
    return counts


def most_frequent(counts: np.ndarray, size: int) -> Tensor:
    """Return the ids (size,) int64, ascending, of the largest ``counts`` (V,).

    Lower ids win ties: byte-pair tokenizers number their tokens in the order of merging, so that
    lower ids are more common. Raises InputError for a size that the vocabulary does not have.
    """
    if not 1 <= size <= len(counts):
        raise InputError(
            f"a draft vocabulary of {size} tokens cannot be taken from {len(counts)}: "
            f"give a size from 1 to {len(counts)}"
        )
    order = np.argsort(-counts, kind="stable")[:size]
    return torch.from_numpy(np.sort(order).astype(np.int64))


class Frequent(Unchanging):
    """FR-Spec's vocabulary: some rows of an LM head, gathered once. Sequences may share it."""

    def __init__(self, lm_head: nn.Linear | PackedLinear, ids: Tensor) -> None:
        """Gather the rows of ``ids`` (n,) int64, on any device, of ``lm_head`` (V, d)."""
        values = lm_head.state_dict()
        self.ids = ids.to(values["weight"].device)
        rows = nn.Linear(lm_head.in_features, len(ids), lm_head.bias is not None, "meta")
        rows.load_state_dict({name: whole[self.ids] for name, whole in values.items()}, assign=True)
        rows.requires_grad_(False)
        self.rows = PackedLinear(rows) if isinstance(lm_head, PackedLinear) else rows

    @classmethod
    def of(cls, lm_head: nn.Linear | PackedLinear, resources: Resources, size: int) -> "Frequent":
        """Gather the ``size`` most frequent rows. Raises the errors of ``token_counts``."""
        counts = token_counts(resources, lm_head.out_features)
        return cls(lm_head, most_frequent(counts, min(size, len(counts))))


def pruned(model: PreTrainedModel, counts: np.ndarray, size: int) -> PreTrainedModel:
    """Return ``model`` with an LM head over its ``size`` most frequent tokens.

    ``counts`` (V,) count the model's own tokens. Logits keep their width: all other tokens get
    -inf, before the model's own scaling of logits. Nothing else is copied, and ``model`` does not
    change.
    """
    part = copy.copy(model)
    part._modules = dict(model._modules)  # a shallow copy shares the table of modules
    part.set_output_embeddings(_PrunedHead(lm_head(model), most_frequent(counts, size)))
    return part


def lm_head(model: PreTrainedModel) -> nn.Linear | PackedLinear:
    """Return the LM head (V, d) of ``model``."""
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Linear | PackedLinear):
        raise InputError(f"the model's LM head must be a linear layer, got {type(head).__name__}")
    return head


class _PrunedHead(nn.Module):
    def __init__(self, head: nn.Linear | PackedLinear, ids: Tensor) -> None:
        super().__init__()
        self.rows, self.width = Frequent(head, ids), head.out_features

    def forward(self, hidden: Tensor) -> Tensor:
        some = self.rows.logits(hidden)
        full = some.new_full((*some.shape[:-1], self.width), -torch.inf)
        full[..., self.rows.ids] = some
        return full
