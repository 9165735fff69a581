"""The verification kernels: on the CPU through ``tasc._native``, on CUDA through libtasc_cuda.

They are equal to ``reference`` unless a random number lies within 1e-5 of the boundary of a
decision: exponentials are float32, sums float64. For an invalid tree or row, the first entry of
their result is negative on CUDA, and ``committed`` raises InputError; on the CPU they raise it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from tasc import _native
from tasc.backend import cuda
from tasc.backend.base import refusals
from tasc.decoding.verify.reference import Verified
from tasc.errors import InputError

GREEDY, SAMPLED, REJECTION = "verify_greedy", "verify_sampled", "verify_rejection"
_Result = TypeVar("_Result")
_FAILURES = {
    -1: "draft tree: node {} has a parent that is not an earlier node",
    -2: "row {} of the logits has no finite maximum: the model or a logits processor leaves no "
    "token to choose; check the model's weights",
    -3: "draft tree: entry {} of distributions.of refers to a missing row",
}


def available(device: torch.device) -> bool:
    """Return whether there are kernels for ``device``."""
    return device.type == "cpu" or (device.type == "cuda" and cuda.library() is not None)


def native(kernel: Callable[..., _Result], logits: torch.Tensor, *arguments: Any) -> _Result:  # noqa: ANN401
    """Call a routine of ``tasc._native`` on CPU logits (n + 1, V) of any float dtype."""
    logits = logits.detach().contiguous()
    half = logits.dtype == torch.float16
    if half or logits.dtype == torch.bfloat16:
        bits = logits.view(torch.uint16).numpy()
    else:
        bits = logits.float().numpy()
    with refusals():
        return kernel(bits, half, *arguments)


def run(kernel: str, logits: torch.Tensor, *arguments: Any) -> Verified:  # noqa: ANN401
    """Run a kernel on a draft's arrays, on the device of ``logits``; wait for the result."""
    return committed(result(kernel, logits, *arguments))


def result(kernel: str, logits: torch.Tensor, *arguments: Any) -> np.ndarray:  # noqa: ANN401
    """Return the accepted nodes, the bonus token, the path, then -1, as (n + 2,) int32."""
    if logits.device.type == "cpu":
        arrays = [a.numpy() if isinstance(a, torch.Tensor) else a for a in arguments]
        return native(getattr(_native, kernel), logits, *arrays)
    tokens, parents, *rest = arguments
    tree = torch.from_numpy(np.stack([tokens, parents])).to(logits.device, non_blocking=True)
    rest = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in rest]
    moved = [a.to(logits.device) if isinstance(a, torch.Tensor) else a for a in rest]
    return np.asarray(KERNELS[kernel](logits, *tree, *moved).cpu())


def committed(result: np.ndarray) -> Verified:
    """Return the path (k,) int32 and the bonus token in ``result`` (n + 2,) int32."""
    accepted, bonus = int(result[0]), int(result[1])
    if accepted < 0:
        raise InputError(_FAILURES[accepted].format(bonus))
    return result[2 : 2 + accepted], bonus


def _launch(
    kernel: str,
    logits: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    *rest: Any,  # noqa: ANN401
) -> torch.Tensor:
    """Launch a verification kernel on a draft; return its result, (n + 2,) int32."""
    logits = logits.contiguous()
    n = tokens.shape[0]
    if logits.dim() != 2 or logits.shape[0] != n + 1 or str(logits.dtype) not in cuda.DTYPES:
        raise InputError(
            f"a draft of {n} nodes needs {n + 1} logits of {', '.join(cuda.DTYPES)}, got "
            f"{tuple(logits.shape)} {logits.dtype}"
        )
    result = tokens.new_empty(n + 2)
    dtype, width = cuda.DTYPES[str(logits.dtype)], logits.shape[1]
    cuda.launch(f"tasc_{kernel}", logits, dtype, width, tokens, parents, n, *rest, result)
    return result


def _greedy(logits: torch.Tensor, tokens: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
    best = torch.empty(len(tokens) + 1, dtype=torch.int64, device=logits.device)
    return _launch(GREEDY, logits, tokens, parents, best)


def _rejection(
    logits: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    distributions: torch.Tensor,
    *rest: Any,  # noqa: ANN401 - row of each node, replacement, temperature, uniforms
) -> torch.Tensor:
    scratch = torch.empty(logits.shape[1], dtype=torch.float32, device=logits.device)
    proposals = distributions.contiguous(), len(distributions)
    return _launch(REJECTION, logits, tokens, parents, *proposals, *rest, scratch)


# name -> launcher of the CUDA kernel, with tensors of one device; never waits for the device
KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    GREEDY: _greedy,
    SAMPLED: partial(_launch, SAMPLED),  # then temperature and uniforms
    REJECTION: _rejection,
}
