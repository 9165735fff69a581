"""The kernels of the window as torch operators: ``window_push`` and ``window_gather``."""

import torch

from tasc import _native
from tasc.backend import cuda
from tasc.backend.tree import refusals
from tasc.errors import InputError


def push(tokens: torch.Tensor, unique: bool, *arrays: torch.Tensor) -> None:
    """Append ``tokens`` (m,) int32 to a window, in place; see ``window_push``.

    This goes round torch's dispatcher, which takes longer than a push does.
    """
    _check(tokens, *arrays)
    if not tokens.is_cuda:
        with refusals():
            _native.window_push(tokens.numpy(), unique, *(a.numpy() for a in arrays))
        return
    ring, counts = arrays[:2]
    sizes = (len(tokens), int(unique), len(counts), len(ring))
    pointers = [a.data_ptr() for a in arrays]
    _launch("tasc_window_push", tokens, tokens.data_ptr(), *sizes, *pointers)


def gather(
    weight: torch.Tensor, ids: torch.Tensor, held: torch.Tensor, buffer: torch.Tensor
) -> None:
    """Copy the rows that ``buffer`` lacks; see ``window_gather``."""
    _check(ids, held)
    if weight.dtype != buffer.dtype or not (weight.is_contiguous() and buffer.is_contiguous()):
        raise InputError(
            f"rows of {weight.dtype} go into a buffer of the same, both contiguous; got "
            f"{buffer.dtype}, strides {weight.stride()} and {buffer.stride()}"
        )
    if not weight.is_cuda:
        rows, packed = (t.detach().view(torch.uint8).numpy() for t in (weight, buffer))
        with refusals():
            _native.window_gather(rows, ids.numpy(), held.numpy(), packed)
        return
    row_bytes = weight.shape[1] * weight.element_size()
    where = (ids.data_ptr(), held.data_ptr(), len(ids), buffer.data_ptr())
    _launch("tasc_window_gather", weight, weight.data_ptr(), row_bytes, *where)


def _launch(kernel: str, near: torch.Tensor, *arguments: int) -> None:
    """Start ``kernel`` on the current stream of the device of ``near``."""
    with torch.cuda.device(near.device):
        cuda.launch(kernel, *arguments, torch.cuda.current_stream().cuda_stream)


@torch.library.custom_op(
    "tasc::window_push", mutates_args=("ring", "counts", "slots", "marks", "ids", "free", "state")
)
def window_push(
    tokens: torch.Tensor,
    unique: bool,
    ring: torch.Tensor,
    counts: torch.Tensor,
    slots: torch.Tensor,
    marks: torch.Tensor,
    ids: torch.Tensor,
    free: torch.Tensor,
    state: torch.Tensor,
) -> None:
    """Append ``tokens`` (m,) int32 to a window, in place; all int32 on one device.

    ring, ids, free (size,), counts, slots, marks (vocabulary,), state (4,): see window_vocab.h.
    """
    push(tokens, unique, ring, counts, slots, marks, ids, free, state)


@torch.library.custom_op("tasc::window_gather", mutates_args=("held", "buffer"))
def window_gather(
    weight: torch.Tensor, ids: torch.Tensor, held: torch.Tensor, buffer: torch.Tensor
) -> None:
    """Bring ``buffer`` (size, d) up to ``ids`` (size,): copy the rows of ``weight`` it lacks.

    ``weight`` (V, d). ``held`` (size,) int32 says which row each slot of the buffer holds, -1 for
    none.
    """
    gather(weight, ids, held, buffer)


@window_push.register_fake
@window_gather.register_fake
def _nothing(*_: object) -> None:
    return None


def _check(*arrays: torch.Tensor) -> None:
    for array in arrays:
        if array.dtype != torch.int32 or array.dim() != 1 or not array.is_contiguous():
            raise InputError(
                f"a window's arrays are contiguous rows of int32, got {array.dtype} of shape "
                f"{tuple(array.shape)}"
            )
