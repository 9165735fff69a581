"""MicroSpec's window, with kernels and in plain torch.

Both stay on the device. The kernels never make the host wait for it.
"""

import torch

from tasc import _native
from tasc.backend import cuda
from tasc.backend.base import refusals
from tasc.errors import InputError

_ACTIVE, _EXTENT = 2, 3  # indexes into the state, see kernels/include/tasc/window_vocab.h
_NOBODY = 2**31 - 1


class TorchWindow:
    """The window in plain torch: the reference for the kernels, and their fallback.

    ``ids`` (size,) int32 is the token of each slot, -1 if free. A token keeps its slot while it is
    in the window; new tokens take the first free slots in order.
    """

    def __init__(self, vocabulary: int, size: int, device: torch.device | str = "cpu") -> None:
        """Open an empty window over the last ``size`` tokens, of ids below ``vocabulary``."""
        self.vocabulary, self.size = vocabulary, size
        self.stream = torch.empty(0, dtype=torch.int32, device=device)
        self.ids = torch.full((size,), -1, dtype=torch.int32, device=device)
        self.held = self.ids.clone()

    @property
    def memory(self) -> tuple[torch.Tensor, ...]:
        """The tensors that ``push`` and ``gather`` write to in place."""
        return self.ids, self.held

    def push(self, tokens: torch.Tensor, unique: bool) -> None:
        """Append ``tokens`` (m,) int32, or with ``unique`` only the first of equal ones."""
        tokens = tokens[(tokens >= 0) & (tokens < self.vocabulary)]
        distinct = _first_of_each(tokens)
        self.stream = torch.cat([self.stream, distinct if unique else tokens])[-self.size :]
        self.ids[~torch.isin(self.ids, self.stream)] = -1
        new = distinct[torch.isin(distinct, self.stream) & ~torch.isin(distinct, self.ids)]
        free = (self.ids < 0).nonzero()[:, 0]
        self.ids[free[: len(new)]] = new

    def gather(self, weight: torch.Tensor, buffer: torch.Tensor) -> None:
        """Copy the rows of ``weight`` (V, d) that are missing in ``buffer`` (size, d)."""
        due = (self.ids >= 0) & (self.ids != self.held)
        buffer[due] = weight[self.ids[due].long()]
        self.held[due] = self.ids[due]

    @property
    def extent(self) -> int:
        """The number of slots up to the last used one."""
        used = (self.ids >= 0).nonzero()[:, 0]
        return int(used[-1]) + 1 if len(used) else 0

    @property
    def active(self) -> int:
        """The number of tokens in the window."""
        return int((self.ids >= 0).sum())


def _first_of_each(tokens: torch.Tensor) -> torch.Tensor:
    """Return the distinct ``tokens`` in the order of their first occurrence."""
    values, which = torch.unique(tokens, return_inverse=True)
    at = torch.arange(len(tokens), device=tokens.device)
    first = at.new_full((len(values),), len(tokens)).scatter_reduce(0, which, at, "amin")
    return tokens[first.sort().values]


class NativeWindow:
    """The window with kernels, in 12 bytes per token of the vocabulary and 16 per slot.

    Its interface is that of ``TorchWindow``; ``extent`` and ``active`` wait for the device.
    """

    def __init__(self, vocabulary: int, size: int, device: torch.device | str = "cpu") -> None:
        def filled(length: int, value: int) -> torch.Tensor:
            return torch.full((length,), value, dtype=torch.int32, device=device)

        self.ids, self.held, self.state = filled(size, -1), filled(size, -1), filled(4, 0)
        # Ring, counts, slots, marks, ids, free slots and state, as in window_vocab.h
        self._arrays = (
            filled(size, 0),
            filled(vocabulary, 0),
            filled(vocabulary, -1),
            filled(vocabulary, _NOBODY),
            self.ids,
            filled(size, 0),
            self.state,
        )

    @property
    def memory(self) -> tuple[torch.Tensor, ...]:
        return *self._arrays, self.held

    def push(self, tokens: torch.Tensor, unique: bool) -> None:
        _check(tokens)
        if not tokens.is_cuda:
            with refusals():
                _native.window_push(tokens.numpy(), unique, *(a.numpy() for a in self._arrays))
            return
        ring, counts = self._arrays[:2]
        sizes = (len(tokens), int(unique), len(counts), len(ring))
        pointers = [a.data_ptr() for a in self._arrays]
        _launch("tasc_window_push", tokens, tokens.data_ptr(), *sizes, *pointers)

    def gather(self, weight: torch.Tensor, buffer: torch.Tensor) -> None:
        gather(weight, self.ids, self.held, buffer)

    @property
    def extent(self) -> int:
        return int(self.state[_EXTENT])

    @property
    def active(self) -> int:
        return int(self.state[_ACTIVE])


Window = NativeWindow | TorchWindow


def window(vocabulary: int, size: int, device: torch.device) -> Window:
    """Return an empty window on ``device``, with kernels if there are any."""
    if size < 1:
        raise InputError(f"the window must hold at least 1 token, got {size}")
    native = device.type == "cpu" or (device.type == "cuda" and cuda.library() is not None)
    return (NativeWindow if native else TorchWindow)(vocabulary, size, device)


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
    where = (ids.data_ptr(), held.data_ptr(), len(ids), buffer.data_ptr())
    _launch("tasc_window_gather", weight, weight.data_ptr(), row_bytes, *where)


def _launch(kernel: str, near: torch.Tensor, *arguments: int) -> None:
    with torch.cuda.device(near.device):
        cuda.launch(kernel, *arguments, torch.cuda.current_stream().cuda_stream)


def _check(*arrays: torch.Tensor) -> None:
    for array in arrays:
        if array.dtype != torch.int32 or array.dim() != 1 or not array.is_contiguous():
            raise InputError(
                f"a window's arrays must be contiguous, one-dimensional and int32, got "
                f"{array.dtype} of shape {tuple(array.shape)}"
            )
