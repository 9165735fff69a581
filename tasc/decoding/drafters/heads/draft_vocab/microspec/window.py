"""The window as kernels keep it: on the device, and nothing in a push or a gather waits for it."""

import torch

from tasc.backend import cuda
from tasc.decoding.drafters.heads.draft_vocab.microspec import ops
from tasc.decoding.drafters.heads.draft_vocab.microspec.reference import TorchWindow
from tasc.errors import InputError

_ACTIVE, _EXTENT = 2, 3  # of the state, see kernels/include/tasc/window_vocab.h
_NOBODY = 2**31 - 1


class NativeWindow:
    """The window as the kernels keep it; ``ids`` and calls are as in ``TorchWindow``.

    Takes 12 bytes a token of the vocabulary and 16 a slot.
    """

    def __init__(self, vocabulary: int, size: int, device: torch.device | str = "cpu") -> None:
        """Open an empty window over the last ``size`` tokens, of ids below ``vocabulary``."""

        def filled(length: int, value: int) -> torch.Tensor:
            return torch.full((length,), value, dtype=torch.int32, device=device)

        self.vocabulary, self.size = vocabulary, size
        self.ids, self.held, self.state = filled(size, -1), filled(size, -1), filled(4, 0)
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
        """All that a push or a gather writes to."""
        return *self._arrays, self.held

    def push(self, tokens: torch.Tensor, unique: bool) -> None:
        """Append ``tokens`` (m,) int32, with ``unique`` only the first of those that are alike."""
        ops.push(tokens, unique, *self._arrays)

    def gather(self, weight: torch.Tensor, buffer: torch.Tensor) -> None:
        """Copy the rows of ``weight`` (V, d) that ``buffer`` (size, d) does not hold yet."""
        ops.gather(weight, self.ids, self.held, buffer)

    @property
    def extent(self) -> int:
        """One more than the last slot in use; waits for the device."""
        return int(self.state[_EXTENT])

    @property
    def active(self) -> int:
        """Tokens in the window; waits for the device."""
        return int(self.state[_ACTIVE])


Window = NativeWindow | TorchWindow


def window(vocabulary: int, size: int, device: torch.device) -> Window:
    """Return an empty window for ``device``, with kernels where there are some."""
    if size < 1:
        raise InputError(f"the window must hold at least 1 token, got {size}")
    native = device.type == "cpu" or (device.type == "cuda" and cuda.library() is not None)
    return (NativeWindow if native else TorchWindow)(vocabulary, size, device)
