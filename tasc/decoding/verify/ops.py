"""The verification kernels as torch operators, so that ``torch.compile`` can trace them.

``torch.ops.tasc.verify_greedy``, ``verify_sampled`` and ``verify_rejection`` take tensors on one
device and return (n + 2,) int32 there: the number of accepted nodes, the bonus token, the path,
then -1. On the CPU they raise InputError for an invalid tree or row. On CUDA they never wait for
the device: the first entry is negative instead, and ``committed`` raises.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch

from tasc import _native
from tasc.backend import cuda
from tasc.backend.tree import refusals
from tasc.decoding.verify.reference import Verified
from tasc.errors import InputError

_Result = TypeVar("_Result")
_FAILURES = {
    -1: "draft tree: node {} has a parent that is not an earlier node",
    -2: "row {} of the logits has no finite maximum: the model or a logits processor leaves no "
    "token to choose",
    -3: "draft tree: entry {} of distributions.of refers to a missing row",
}


def available(logits: torch.Tensor) -> bool:
    """Return whether there is a kernel for the device of ``logits``."""
    return logits.device.type == "cpu" or (logits.is_cuda and cuda.library() is not None)


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
    if logits.device.type == "cpu":
        arrays = [a.numpy() if isinstance(a, torch.Tensor) else a for a in arguments]
        return committed(native(getattr(_native, kernel), logits, *arrays))
    tokens, parents, *rest = arguments
    tree = torch.from_numpy(np.stack([tokens, parents])).to(logits.device, non_blocking=True)
    rest = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in rest]
    moved = [a.to(logits.device) if isinstance(a, torch.Tensor) else a for a in rest]
    # The dispatcher would take longer than the launch.
    return committed(_KERNELS[kernel](logits, *tree, *moved).cpu().numpy())


def committed(result: np.ndarray) -> Verified:
    """Return the path (k,) int32 and the bonus token in ``result`` (n + 2,) int32."""
    accepted, bonus = int(result[0]), int(result[1])
    if accepted < 0:
        raise InputError(_FAILURES[accepted].format(bonus))
    return result[2 : 2 + accepted], bonus


def _launch(kernel: str, logits: torch.Tensor, tokens: torch.Tensor, *rest: Any) -> torch.Tensor:  # noqa: ANN401
    """Launch a CUDA kernel on the current stream; pass tensors as pointers."""
    logits = logits.contiguous()
    n = tokens.shape[0]
    if logits.dim() != 2 or logits.shape[0] != n + 1 or str(logits.dtype) not in cuda.DTYPES:
        raise InputError(
            f"a draft of {n} nodes needs {n + 1} logits of {', '.join(cuda.DTYPES)}, got "
            f"{tuple(logits.shape)} {logits.dtype}"
        )
    result = tokens.new_empty(n + 2)
    with torch.cuda.device(logits.device):
        stream = torch.cuda.current_stream().cuda_stream
        cuda.launch(
            f"tasc_{kernel}",
            logits.data_ptr(),
            cuda.DTYPES[str(logits.dtype)],
            logits.shape[1],
            tokens.data_ptr(),
            *(a.data_ptr() if isinstance(a, torch.Tensor) else a for a in rest),
            result.data_ptr(),
            stream,
        )
    return result


GREEDY, SAMPLED, REJECTION = "verify_greedy", "verify_sampled", "verify_rejection"


def verify_greedy(
    logits: torch.Tensor, tokens: torch.Tensor, parents: torch.Tensor
) -> torch.Tensor:
    """Verify along the arg-max: ``logits`` (n + 1, V), ``tokens`` and ``parents`` (n,) int32."""
    if logits.is_cuda:
        best = torch.empty(len(tokens) + 1, dtype=torch.int64, device=logits.device)
        return _launch(GREEDY, logits, tokens, parents, len(tokens), best)
    return torch.from_numpy(native(_native.verify_greedy, logits, tokens.numpy(), parents.numpy()))


def verify_sampled(
    logits: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    temperature: float,
    uniforms: torch.Tensor,
) -> torch.Tensor:
    """Verify by sampling with ``uniforms`` (n + 1,) float64, as reference.coupled_reference does.

    Equal to the reference unless a uniform number lies within 1e-5 of a boundary of the cumulative
    distribution: exponentials are float32, sums float64.
    """
    if logits.is_cuda:
        return _launch(SAMPLED, logits, tokens, parents, len(tokens), temperature, uniforms)
    arrays = (tokens.numpy(), parents.numpy(), temperature, uniforms.numpy())
    return torch.from_numpy(native(_native.verify_sampled, logits, *arrays))


def verify_rejection(
    logits: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    distributions: torch.Tensor,
    distribution_of: torch.Tensor,
    replacement: bool,
    temperature: float,
    uniforms: torch.Tensor,
) -> torch.Tensor:
    """Verify by rejection, as ``reference.rejection_reference`` does.

    ``distributions`` (m, V) float32, ``distribution_of`` (n + 1,) int32. Equal to the reference
    unless a decision lies within 1e-5 of its boundary.
    """
    if logits.is_cuda:
        scratch = torch.empty(logits.shape[1], dtype=torch.float32, device=logits.device)
        named = (
            distributions.contiguous(),
            distributions.shape[0],
            distribution_of,
            int(replacement),
            temperature,
        )
        return _launch(REJECTION, logits, tokens, parents, len(tokens), *named, uniforms, scratch)
    arrays = (
        tokens.numpy(),
        parents.numpy(),
        distributions.contiguous().numpy(),
        distribution_of.numpy(),
    )
    rest = (replacement, temperature, uniforms.numpy())
    return torch.from_numpy(native(_native.verify_rejection, logits, *arrays, *rest))


_KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    GREEDY: verify_greedy,
    SAMPLED: verify_sampled,
    REJECTION: verify_rejection,
}


def _result(logits: torch.Tensor, tokens: torch.Tensor, *_: Any) -> torch.Tensor:  # noqa: ANN401, ARG001
    return tokens.new_empty(tokens.shape[0] + 2)


for _name, _kernel in _KERNELS.items():
    torch.library.custom_op(f"tasc::{_name}", _kernel, mutates_args=()).register_fake(_result)
