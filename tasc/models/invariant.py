"""Forwards on CUDA whose rows have the same bits alone, in a tree and in a batch.

cuBLAS and torch add in another order for each number of rows. The kernels of
kernels/cuda/invariant.cu have one order for linear layers, the means in norms, and attention.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from tasc.backend import cuda
from tasc.models.packed import DTYPES

active = ContextVar("active", default=False)  # whether attention, too, has to be invariant


@contextmanager
def invariant_forward() -> Iterator[None]:
    """Use the invariant kernels in the block; quantised layers and experts keep their own."""
    token = active.set(True)
    try:
        with _Replaced():
            yield
    finally:
        active.reset(token)


class _Replaced(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        given = kwargs or {}
        if func is functional.linear and not given and args[0].dtype in DTYPES:
            return linear(*args)
        if func is torch.Tensor.mean and (args[1:], given) == ((-1,), {"keepdim": True}):
            x: torch.Tensor = args[0]
            if x.dtype == torch.float32:
                return linear(x, x.new_ones(1, x.shape[-1])) / x.shape[-1]
        return func(*args, **given)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return ``x`` (..., k) times the transposed ``weight`` (n, k), plus ``bias`` (n,): (..., n).

    The dtype is float32 or bfloat16. Element i of a row goes to sum i mod 32, in ascending order;
    then the 32 sums, of float32, are added as a tree.
    """
    (n, k), x = weight.shape, x.contiguous()
    out = x.new_empty(*x.shape[:-1], n)
    half, rows = x.dtype == torch.bfloat16, x.numel() // k
    cuda.launch("tasc_linear", x, weight.contiguous(), bias, half, rows, n, k, out)
    return out
