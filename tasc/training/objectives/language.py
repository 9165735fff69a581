"""Cross-entropy on target tokens, for training and for held-out examples."""

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from tasc.progress import Progress, silent
from tasc.training.core.batch import IGNORED, Batch, Examples, validation_batches
from tasc.training.core.schedule import Evaluation
from tasc.training.objectives.learner import Learner


def learner(model: torch.nn.Module) -> Learner:
    """Train ``model`` on its targets."""
    return Learner(model, summed_loss, evaluate)


def innermost(model: torch.nn.Module) -> torch.nn.Module:
    """Return the transformers model inside PEFT's wrapper, if there is one."""
    get_base = getattr(model, "get_base_model", None)
    return get_base() if callable(get_base) else model


def target_logits(model: torch.nn.Module, batch: Batch, *, bfloat16: bool) -> tuple[Tensor, Tensor]:
    """Run the model; return logits (N, V) float32 and the N target ids they should predict.

    Targets are in batch order. The LM head runs only on positions from the first target on.
    """
    options: dict[str, Any] = {}
    if "logits_to_keep" in inspect.signature(innermost(model).forward).parameters:
        options["logits_to_keep"] = batch.keep
    if batch.position_ids is not None:
        options["position_ids"] = batch.position_ids
    with torch.autocast(batch.input_ids.device.type, torch.bfloat16, enabled=bfloat16):
        logits = model(input_ids=batch.input_ids, use_cache=False, **options).logits
    labels = batch.labels[:, -logits.shape[1] :][:, 1:]
    wanted = labels != IGNORED
    return logits[:, :-1][wanted].float(), labels[wanted]


def summed_loss(model: torch.nn.Module, batch: Batch, *, bfloat16: bool) -> Tensor:
    """Return the loss in nats, summed over the batch's targets."""
    logits, labels = target_logits(model, batch, bfloat16=bfloat16)
    return cross_entropy(logits, labels, reduction="sum")


@torch.no_grad()
def evaluate(
    model: torch.nn.Module,
    examples: Examples,
    batch_size: int,
    step: int,
    *,
    bfloat16: bool,
    progress: Progress = silent,
) -> Evaluation:
    """Return the loss per target and the share of examples predicted exactly."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    batch_size = min(batch_size, affordable_batch(model, int(examples.lengths.max())))
    total, targets, exact = 0.0, 0, 0
    for batch in validation_batches(examples, batch_size, device, progress):
        logits, labels = target_logits(model, batch, bfloat16=bfloat16)
        total += float(cross_entropy(logits, labels, reduction="sum"))
        targets += len(labels)
        owners = (batch.labels != IGNORED).nonzero()[:, 0]
        wrong = owners[logits.argmax(-1) != labels]
        exact += len(batch.labels) - len(set(wrong.tolist()))
    model.train(was_training)
    return Evaluation(step, total / max(1, targets), exact / len(examples))


def affordable_batch(model: torch.nn.Module, length: int) -> int:
    """Return the number of sequences of ``length`` tokens whose logits fill half a gigabyte."""
    # Not from the LM head: with trained rows, PEFT rebuilds its weight on every access.
    vocabulary = int(innermost(model).config.get_text_config().vocab_size)  # type: ignore[operator, union-attr]
    return max(1, (1 << 27) // (length * vocabulary))
