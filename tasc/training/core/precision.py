"""The arithmetic of training: bfloat16 and TF32."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tasc.errors import UnavailableError
from tasc.models.load import device_has_bfloat16


def multiplies_in_bfloat16(device: torch.device, dtype: str, *, bf16: bool) -> bool:
    """Return whether to multiply in bfloat16: with ``bf16``, or if the device supports it.

    A CPU without bfloat16 instructions works too, slowly. Raises UnavailableError for ``bf16`` on a
    CUDA device without bfloat16.
    """
    has = device_has_bfloat16(device)
    if bf16 and not has and device.type == "cuda":
        raise UnavailableError(f"{device} does not support bfloat16: leave out --bf16")
    return bf16 or (dtype != "float32" and has)


@contextmanager
def tensor_float32(wanted: bool, device: torch.device) -> Iterator[None]:
    """Multiply float32 matrices as TF32 in the block, if ``wanted``.

    Raises UnavailableError if that is not a CUDA device.
    """
    if wanted and device.type != "cuda":
        raise UnavailableError(
            f"TF32 needs a CUDA device, and the device is {device.type}: leave out --tf32"
        )
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if wanted else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
