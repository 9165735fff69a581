"""The bytes of single tensors in safetensors files, mapped into memory."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

_LENGTH = 8  # bytes of the header's length, little endian
_CHUNK = 1 << 24  # bytes compared at a time


class StoredTensor(NamedTuple):
    """A tensor in a file that ``safe_open`` has accepted."""

    file: Path
    name: str


def same_bits(first: StoredTensor, second: StoredTensor) -> bool:
    """Return whether two tensors have the same dtype and the same bits."""
    (dtype, data), (other_dtype, other_data) = _read(first), _read(second)
    return (
        dtype == other_dtype
        and len(data) == len(other_data)
        and all(
            np.array_equal(data[i : i + _CHUNK], other_data[i : i + _CHUNK])
            for i in range(0, len(data), _CHUNK)
        )
    )


def _read(tensor: StoredTensor) -> tuple[str, np.memmap]:
    """Return the name of a tensor's dtype, and its bytes (n,) uint8."""
    with tensor.file.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little")
        entry = json.loads(file.read(length))[tensor.name]
    begin, end = entry["data_offsets"]
    offset = _LENGTH + length + begin
    return entry["dtype"], np.memmap(tensor.file, np.uint8, "r", offset, shape=(end - begin,))
