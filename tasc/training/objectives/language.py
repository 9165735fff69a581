"""Cross-entropy on target tokens, for training and for held-out examples."""

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from tasc.training.core.batch import IGNORED, Batch
from tasc.training.objectives import pieces
from tasc.training.objectives.learner import Learner, Loss, innermost


def learner(model: torch.nn.Module, loss: Loss | None = None) -> Learner:
    """Train ``model`` on its targets, with their cross-entropy or an estimate of it.

    Logits are computed in pieces where the model is found to allow it.
    """
    if loss is None and (in_pieces := pieces.learner(model)):
        return in_pieces
    # Not from the LM head: with trained rows, PEFT rebuilds its weight on every access.
    width = int(innermost(model).config.get_text_config().vocab_size)  # type: ignore[operator, union-attr]
    return Learner(model, loss or token_loss, score, width)


def target_logits(model: torch.nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Run the model; return logits (N, V) float32 and the N target ids they should predict.

    Targets are in batch order. The LM head runs only at positions where some sequence has a target.
    They are an index: on a slice, torch would copy the head's weight for each sequence.
    """
    wanted = batch.labels[:, 1:] != IGNORED
    columns = wanted.any(0).nonzero()[:, 0]
    options: dict[str, Any] = {}
    if "logits_to_keep" in inspect.signature(innermost(model).forward).parameters:
        options["logits_to_keep"] = columns
    if batch.position_ids is not None:
        options["position_ids"] = batch.position_ids
    logits = model(input_ids=batch.input_ids, use_cache=False, **options).logits
    if "logits_to_keep" not in options:
        logits = logits[:, columns]
    return logits[wanted[:, columns]].float(), batch.labels[:, 1:][wanted]


def token_loss(model: torch.nn.Module, batch: Batch) -> Tensor:
    """Return the loss in nats, summed over the batch's targets."""
    logits, labels = target_logits(model, batch)
    return cross_entropy(logits, labels, reduction="sum")


def summed_loss(model: torch.nn.Module, batch: Batch, *, bfloat16: bool) -> Tensor:
    """Return ``token_loss``, outside of a training run."""
    with torch.autocast(batch.input_ids.device.type, torch.bfloat16, enabled=bfloat16):
        return token_loss(model, batch)


def score(model: torch.nn.Module, batch: Batch) -> tuple[float, int, int, int]:
    """Return the summed loss, the targets, and the sequences predicted exactly out of all."""
    logits, labels = target_logits(model, batch)
    owners = (batch.labels != IGNORED).nonzero()[:, 0]
    wrong = set(owners[logits.argmax(-1) != labels].tolist())
    sequences = len(batch.labels)
    loss = float(cross_entropy(logits, labels, reduction="sum"))
    return loss, len(labels), sequences - len(wrong), sequences
