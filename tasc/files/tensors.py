"""The bytes of single tensors in safetensors files, mapped into memory."""

import json
from pathlib import Path

import numpy as np

_LENGTH = 8  # bytes of the header's length, little endian


def tensor_bytes(file: Path, name: str) -> np.memmap:
    """Return the bytes (n,) uint8 of a tensor in a file that ``safe_open`` has accepted."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(_LENGTH), "little")
        begin, end = json.loads(opened.read(length))[name]["data_offsets"]
    return np.memmap(file, np.uint8, "r", offset=_LENGTH + length + begin, shape=(end - begin,))
