"""MicroSpec's window, with kernels that never make the host wait for the device."""

from functools import partial

import torch

from tasc import _native
from tasc.backend import cuda
from tasc.backend.base import refusals
from tasc.decoding.verify.ops import available
from tasc.errors import InputError

_EXTENT = 3  # index into the state, see kernels/include/tasc/window_vocab.h
_NOBODY = 2**31 - 1


class Window:
    """The last ``size`` tokens of a stream, in slots.

    ``ids`` (size,) int32 is the token of each slot, -1 if free. A token keeps its slot while it is
    in the window; new tokens take the first free slots in order. It takes 12 bytes per token of the
    vocabulary and 16 per slot, on ``device`` if that has kernels, else on the CPU.
    """

    def __init__(self, vocabulary: int, size: int, device: torch.device | str = "cpu") -> None:
        """Open an empty window over tokens below ``vocabulary``."""
        if size < 1:
            raise InputError(f"the window must hold at least 1 token, got {size}")
        self.native = available(torch.device(device))
        full = partial(torch.full, dtype=torch.int32, device=device if self.native else "cpu")
        self.ids, self.held, self.state = full((size,), -1), full((size,), -1), full((4,), 0)
        ring, free = full((size,), 0), full((size,), 0)
        counts, slots = full((vocabulary,), 0), full((vocabulary,), -1)
        marks = full((vocabulary,), _NOBODY)
        self._arrays = (ring, counts, slots, marks, self.ids, free, self.state)  # window_vocab.h

    @property
    def memory(self) -> tuple[torch.Tensor, ...]:
        """The tensors on the device that ``push`` and ``gather`` write to in place."""
        return (*self._arrays, self.held) if self.native else ()

    def push(self, tokens: torch.Tensor, unique: bool) -> None:
        """Append ``tokens`` (m,) int32, or with ``unique`` only the first of equal ones."""
        _check(tokens)
        if not (self.native and tokens.is_cuda):
            arrays = [tensor.numpy() for tensor in self._arrays]
            with refusals():
                _native.window_push(tokens.cpu().numpy(), unique, *arrays)
            return
        ring, counts = self._arrays[:2]
        sizes = (len(tokens), int(unique), len(counts), len(ring))
        cuda.launch("tasc_window_push", tokens, *sizes, *self._arrays)

    def gather(self, weight: torch.Tensor, buffer: torch.Tensor) -> None:
        """Copy the rows of ``weight`` (V, d) that are missing in ``buffer`` (size, d)."""
        if self.native:
            gather(weight, self.ids, self.held, buffer)
            return
        due = (self.ids >= 0) & (self.ids != self.held)
        buffer[due] = weight[self.ids[due].long()]
        self.held[due] = self.ids[due]

    @property
    def extent(self) -> int:
        """The number of slots up to the last used one; waits for the device."""
        return int(self.state[_EXTENT])


def gather(
    weight: torch.Tensor, ids: torch.Tensor, held: torch.Tensor, buffer: torch.Tensor
) -> None:
    """Copy the rows ``ids`` (size,) of ``weight`` (V, d) that are missing in ``buffer`` (size, d).

    ``held`` (size,) int32 is the row in each slot of the buffer, -1 for none.
    """
    _check(ids, held)
    if weight.dtype != buffer.dtype or not (weight.is_contiguous() and buffer.is_contiguous()):
        raise InputError(
            f"weight and buffer must be contiguous and of one dtype, got {weight.dtype} and "
            f"{buffer.dtype}, strides {weight.stride()} and {buffer.stride()}"
        )
    if not weight.is_cuda:
        rows, packed = (t.detach().view(torch.uint8).numpy() for t in (weight, buffer))
        with refusals():
            _native.window_gather(rows, ids.numpy(), held.numpy(), packed)
        return
    row_bytes = weight.shape[1] * weight.element_size()
    cuda.launch("tasc_window_gather", weight, row_bytes, ids, held, len(ids), buffer)


def _check(*arrays: torch.Tensor) -> None:
    for array in arrays:
        if array.dtype != torch.int32 or array.dim() != 1 or not array.is_contiguous():
            raise InputError(
                f"a window's arrays must be contiguous, one-dimensional and int32, got "
                f"{array.dtype} of shape {tuple(array.shape)}"
            )
