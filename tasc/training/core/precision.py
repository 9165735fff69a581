"""The arithmetic of a training: bfloat16 and TF32, where the device has them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tasc.errors import UnavailableError
from tasc.models.load import device_has_bfloat16


def multiplies_in_bfloat16(device: torch.device, dtype: str, *, bf16: bool) -> bool:
    """Say whether matrix products are in bfloat16: where ``bf16``, or the device is made for it.

    A CPU without such instructions computes the same, slowly; a CUDA device must have them.

    Raises:
        UnavailableError: bf16 is set, and this CUDA device has none.
    """
    has = device_has_bfloat16(device)
    if bf16 and not has and device.type == "cuda":
        raise UnavailableError(f"bf16: {device} has no bfloat16: leave out --bf16")
    return bf16 or (dtype != "float32" and has)


@contextmanager
def tensor_float32(wanted: bool, device: torch.device) -> Iterator[None]:
    """Let CUDA round the factors of float32 products to TF32 meanwhile, where ``wanted``.

    Raises:
        UnavailableError: wanted, and the device is no CUDA device.
    """
    if not wanted:
        yield
        return
    if device.type != "cuda":
        raise UnavailableError(
            f"tf32 is of CUDA devices, and this is a {device.type}: leave it out"
        )
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
