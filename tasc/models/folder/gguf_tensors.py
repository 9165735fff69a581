"""The values of the tensors of a GGUF file, dequantised one tensor at a time."""

from typing import Any

import numpy as np

from tasc.errors import InputError, UnavailableError
from tasc.files.gguf_header import ADVICE, GgufHeader, TensorInfo

USE_FOLDER = "use the model's folder in transformers' format"


def library() -> Any:  # noqa: ANN401
    """Return the ``gguf`` package. Raises UnavailableError if it is not installed."""
    try:
        import gguf
    except ImportError as error:
        raise UnavailableError(
            "gguf is not installed: install it with pip install 'tasc-lm[llama-cpp]'"
        ) from error
    return gguf


def tensor_info(header: GgufHeader, name: str) -> TensorInfo:
    """Return the place and shape of a tensor. Raises InputError if it is missing or empty."""
    info = header.tensors.get(name)
    if info is None or not info.shape or 0 in info.shape:
        raise InputError(f"{header.path} has no tensor {name}: {ADVICE}")
    return info


def tensor_values(header: GgufHeader, name: str) -> np.ndarray:
    """Return a tensor as float32, in any of ggml's types that the package ``gguf`` dequantises.

    Raises InputError if the type is not one of them, or the file is too short.
    """
    gguf, info, path = library(), tensor_info(header, name), header.path
    try:
        kind = gguf.GGMLQuantizationType(info.kind)
        block, size = gguf.GGML_QUANT_SIZES[kind]
        if info.shape[-1] % block:
            raise ValueError(f"rows of {info.shape[-1]} do not divide into blocks of {block}")
        shape = *info.shape[:-1], info.shape[-1] // block * size
        count = int(np.prod(shape, dtype=object))
        data = np.memmap(path, np.uint8, "r")
        if info.start + count > len(data):
            raise ValueError("it ends behind the end of the file")
        raw = data[info.start : info.start + count].reshape(shape)
        values: np.ndarray = gguf.quants.dequantize(raw, kind)
    except (ValueError, NotImplementedError) as error:
        raise InputError(f"{path}: tensor {name!r:.60}: {error}: {ADVICE}") from None
    return values
