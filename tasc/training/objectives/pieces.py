"""The loss of ``language.py`` from the model's last states, with logits in pieces.

The logits of a batch over a large vocabulary take more memory than all else. Here no more than
``_LOGITS`` of them are in memory at once, and each piece leaves only its loss and its gradients.
Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models" (2024), compute the same with
a kernel in tiles; these are pieces of rows and ordinary products.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn.functional import cross_entropy, linear

from tasc.training.core.batch import IGNORED, Batch
from tasc.training.objectives.learner import Learner, innermost

_LOGITS = 1 << 24  # in memory at once: 64 MiB in float32
_PROBED = 5  # tokens of the forward that finds out whether logits are the head's


class _Head(NamedTuple):
    """An LM head, with the rows of it that train apart from the others, if any."""

    weight: Tensor  # (V, d)
    bias: Tensor | None  # (V,)
    ids: Tensor | None  # (R,) int64
    rows: Tensor | None  # (R, d)


def learner(model: nn.Module) -> Learner | None:
    """Train ``model`` on its targets; None if its logits are not those of its LM head alone."""
    return Learner(model, token_loss, score) if _has_plain_head(innermost(model)) else None


def token_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return the loss in nats, summed over the batch's targets."""
    states, labels = _target_states(model, batch)
    head = _head_of(innermost(model))
    inputs = states, head.weight, head.bias, head.rows, head.ids, labels
    loss: Tensor = _LossInPieces.apply(*inputs)  # type: ignore[no-untyped-call]
    return loss


def score(model: nn.Module, batch: Batch) -> tuple[float, int, int, int]:
    """Return the summed loss, the targets, and the sequences predicted exactly out of all."""
    states, labels = _target_states(model, batch)
    head = _head_of(innermost(model))
    loss, wrong = 0.0, torch.zeros_like(labels, dtype=torch.bool)
    for part in _parts(len(states), len(head.weight)):
        logits = linear(states[part], head.weight, head.bias).float()
        wrong[part] = logits.argmax(-1) != labels[part]
        loss += float(cross_entropy(logits, labels[part], reduction="sum"))
    owners = (batch.labels != IGNORED).nonzero()[:, 0]
    sequences = len(batch.labels)
    return loss, len(labels), sequences - len(set(owners[wrong].tolist())), sequences


def _target_states(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the states (N, d) before the LM head, and the N target ids to predict from them."""
    options = {} if batch.position_ids is None else {"position_ids": batch.position_ids}
    body: Any = innermost(model).base_model
    states = body(input_ids=batch.input_ids, use_cache=False, **options).last_hidden_state
    wanted = batch.labels[:, 1:] != IGNORED
    sequence, position = wanted.nonzero(as_tuple=True)
    index = sequence * states.shape[1] + position
    return states.flatten(0, 1).index_select(0, index), batch.labels[:, 1:][wanted]


def _has_rows(module: object) -> bool:
    """Return whether ``module`` is ``Rows``, whose import needs PEFT, which base models do not."""
    return hasattr(module, "written")


def _head_of(inner: nn.Module) -> _Head:
    module: Any = inner.get_output_embeddings()  # type: ignore[operator]
    module = getattr(module, "token_adapter", module)
    if _has_rows(module):
        weight, ids, rows = module.written()
        return _Head(weight, None, ids, rows)  # PEFT's layers have no bias
    return _Head(module.weight, module.bias, None, None)


@torch.no_grad()
def _has_plain_head(inner: nn.Module) -> bool:
    """Return whether logits are exactly what the LM head returns for the body's last states.

    Some models scale or cap them. So the head's output is replaced by other numbers in one forward,
    which must be the logits.
    """
    module: Any = getattr(inner, "get_output_embeddings", lambda: None)()
    body: Any = getattr(inner, "base_model", inner)
    if body is inner or not _is_linear(module):
        return False
    read: list[Tensor] = []
    planted: list[Tensor] = []

    def replace(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        read.append(inputs[0])
        values = torch.linspace(-1e3, 1e3, output.numel(), device=output.device)
        planted.append(values.view(output.shape).to(output.dtype))
        return planted[-1]

    device = next(inner.parameters()).device
    was_training = inner.training
    handle = module.register_forward_hook(replace)
    try:
        inner.eval()
        ids = torch.arange(_PROBED, device=device)[None]
        ids = ids % inner.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
        logits = inner(input_ids=ids, use_cache=False).logits
        states = getattr(body(input_ids=ids, use_cache=False), "last_hidden_state", None)
    finally:
        handle.remove()
        inner.train(was_training)
    return (
        len(read) == 1
        and states is not None
        and torch.equal(logits, planted[0])
        and states.shape == read[0].shape
        and torch.allclose(states, read[0], rtol=1e-4, atol=1e-5)
    )


def _is_linear(module: object) -> bool:
    adapter: Any = getattr(module, "token_adapter", module)
    layer = adapter.get_base_layer() if _has_rows(adapter) else adapter
    return type(layer) is nn.Linear


def _parts(count: int, vocabulary: int) -> Iterator[slice]:
    size = max(1, _LOGITS // vocabulary)
    pieces = -(-count // size)
    size = -(-count // max(1, pieces))  # of equal size, as products of few rows are slow
    for start in range(0, count, size or 1):
        yield slice(start, min(start + size, count))


class _LossInPieces(torch.autograd.Function):
    """Summed cross-entropy of logits; the forward computes the gradients as well."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        states: Tensor,  # (N, d)
        weight: Tensor,  # (V, d), with a gradient if it trains as a whole
        bias: Tensor | None,  # (V,)
        rows: Tensor | None,  # (R, d), equal to weight[ids], if only these train
        ids: Tensor | None,  # (R,) int64
        labels: Tensor,  # (N,) int64
    ) -> Tensor:
        inputs = (states, weight, bias, rows)
        sums = [
            torch.zeros_like(tensor) if tensor is not None and needed else None
            for tensor, needed in zip(inputs, ctx.needs_input_grad, strict=False)  # type: ignore[attr-defined]
        ]
        of_states, of_weight, of_bias, of_rows = sums
        loss = torch.zeros((), device=states.device)
        for part in _parts(len(states), len(weight)):
            piece, wanted = states[part], labels[part, None]
            logits = linear(piece, weight, bias).float()
            right = logits.gather(1, wanted)
            largest = logits.amax(-1, keepdim=True)
            total = logits.sub_(largest).exp_().sum(-1, keepdim=True)
            loss += (total.log() + largest - right).sum()
            if not any(each is not None for each in sums):
                continue
            slopes = logits.div_(total)  # probabilities, less 1 at the label
            slopes.scatter_add_(1, wanted, -torch.ones_like(right))
            if of_states is not None:
                of_states[part] = slopes.to(weight.dtype) @ weight
            if of_weight is not None:
                of_weight += slopes.to(weight.dtype).T @ piece
            if of_bias is not None:
                of_bias += slopes.sum(0)
            if of_rows is not None and ids is not None:
                of_rows += slopes.to(piece.dtype)[:, ids].T @ piece
        ctx.sums = sums  # type: ignore[attr-defined]
        return loss

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (outer,) = gradients
        sums: list[Tensor | None] = ctx.sums  # type: ignore[attr-defined]
        of_inputs = [None if each is None else each.mul_(outer) for each in sums]
        ctx.sums = []  # type: ignore[attr-defined]
        return (*of_inputs, None, None)
