"""Measures how long a training step takes on this machine, and what it keeps in memory."""

from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from tasc.models.cost import busy_clock
from tasc.training.core.batch import Examples, collate
from tasc.training.objectives import language

_MEASURED = 512  # tokens of a measured batch: more take no less time each
_QUARTERS = (2, 1, 2, 3)  # of the examples by length; the first one allocates


@dataclass(frozen=True)
class TrainingSpeed:
    """The cost of training a model: seconds by ``busy_clock``, and bytes."""

    example: float  # seconds of forward and backward, per example of usual length
    token: float  # the same per token, prompts included
    update: float  # seconds of an optimizer step
    weights: int  # bytes of all parameters
    trained: int  # bytes of the trained ones
    saved: float  # bytes that a forward keeps for the backward pass, per token


def training_speed(
    model: torch.nn.Module, examples: Examples, batch_size: int | None, *, bfloat16: bool
) -> TrainingSpeed:
    """Time training steps of ``model`` on batches of usual length; its weights do not change.

    Parameters with ``requires_grad`` are trained. Batches have at most ``batch_size``
    examples and about ``_MEASURED`` tokens.
    """
    parameters = list(model.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    device = parameters[0].device
    clock = busy_clock(device)
    loss_of = language.learner(model).loss
    order = np.argsort(examples.lengths)
    usual = max(int(np.median(examples.lengths)), 1)
    most = -(-_MEASURED // usual)
    size = most if batch_size is None else min(batch_size, most)
    by_example, by_token, saved = list[float](), list[float](), 0.0
    for quarter in _QUARTERS:
        indices = order[len(order) * quarter // 4 :][:size]
        tokens = int(examples.lengths[indices].sum())
        begin = clock()
        batch = collate(examples, indices).to(device)
        storages = dict[int, int]()
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=bfloat16)
        with _recording(storages), autocast:
            loss = loss_of(model, batch)
        torch.autograd.backward(loss)
        seconds = clock() - begin
        by_example.append(seconds / len(indices))
        by_token.append(seconds / tokens)
        of_parameters = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        saved = sum(count for at, count in storages.items() if at not in of_parameters) / tokens
    optimizer = torch.optim.AdamW([{"params": trained, "lr": 0.0}], weight_decay=0.0, fused=True)
    optimizer.step()  # allocates
    begin = clock()
    optimizer.step()
    update = clock() - begin
    optimizer.zero_grad()
    return TrainingSpeed(
        example=float(np.mean(by_example[1:])),
        token=float(np.mean(by_token[1:])),
        update=update,
        weights=sum(parameter.nbytes for parameter in parameters),
        trained=sum(parameter.nbytes for parameter in trained),
        saved=saved,
    )


def _recording(storages: dict[int, int]) -> AbstractContextManager[None]:
    """Record the bytes of each storage that autograd keeps in the block, by its address."""

    def record(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    return saved_tensors_hooks(record, lambda tensor: tensor)
