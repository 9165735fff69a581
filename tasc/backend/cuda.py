"""The optional CUDA kernels, loaded through ctypes: no link against torch or libcudart."""

import ctypes
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasc.errors import UnavailableError

if TYPE_CHECKING:
    import torch

DTYPES = {"torch.float32": 0, "torch.float16": 1, "torch.bfloat16": 2}

_POINTER, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_ROWS_AND_TREE = (_POINTER, _I32, _I64, _POINTER, _POINTER, _I32)

# the arguments of kernels/include/tasc/cuda_api.h
SIGNATURES = {
    "tasc_ancestor_bits": (_POINTER, _I32, _POINTER, _POINTER, _POINTER),
    "tasc_verify_greedy": (*_ROWS_AND_TREE, _POINTER, _POINTER, _POINTER),
    "tasc_verify_sampled": (*_ROWS_AND_TREE, ctypes.c_float, _POINTER, _POINTER, _POINTER),
    "tasc_verify_rejection": (
        *_ROWS_AND_TREE,
        *(_POINTER, _I32, _POINTER, _I32),
        *(ctypes.c_float, _POINTER, _POINTER, _POINTER, _POINTER),
    ),
    "tasc_compact": (_POINTER, _I64, _I32, _I32, _I64, _I64, _POINTER, _I32, _POINTER),
    "tasc_window_push": (_POINTER, *(_I32,) * 4, *(_POINTER,) * 8),
    "tasc_window_gather": (_POINTER, _I64, _POINTER, _POINTER, _I32, _POINTER, _POINTER),
    "tasc_linear": (*(_POINTER,) * 3, _I32, *(_I64,) * 3, _POINTER, _POINTER),
    "tasc_attend": (*(_POINTER,) * 7, _I32, *(ctypes.c_float,) * 2, _POINTER),
}


@cache
def library() -> ctypes.CDLL | None:
    """Return the CUDA kernel library, or None if it was not built.

    Raises UnavailableError if it cannot be loaded or belongs to another build.
    """
    path = Path(str(files("tasc") / "libtasc_cuda.so"))
    return load(path) if path.is_file() else None


def load(path: Path) -> ctypes.CDLL:
    """Load the library at ``path``. Raises the errors of ``library``."""
    try:
        lib = ctypes.CDLL(str(path))
        for name, types in SIGNATURES.items():
            getattr(lib, name).argtypes = types
        lib.tasc_cuda_error_string.restype = ctypes.c_char_p
    except (OSError, AttributeError) as error:
        raise UnavailableError(
            f"{path} is stale or damaged ({error}): run `make install`, or reinstall tasc"
        ) from error
    return lib


def state() -> str:
    """Return a description of whether the kernels can be used; never raises."""
    try:
        return "built" if library() else "not built (no nvcc)"
    except UnavailableError as error:
        return f"not usable: {error}"


def launch(name: str, first: "torch.Tensor", *others: Any) -> None:  # noqa: ANN401
    """Launch a kernel on the current stream of the first tensor's device; pass tensors as pointers.

    Raises the errors of ``call``.
    """
    import torch

    arguments = [a.data_ptr() if isinstance(a, torch.Tensor) else a for a in (first, *others)]
    with torch.cuda.device(first.device):
        call(name, *arguments, torch.cuda.current_stream().cuda_stream)


def call(name: str, *arguments: Any) -> None:  # noqa: ANN401
    """Call a kernel of the library; pointers are integers, the stream comes last.

    Raises UnavailableError if the library was not built or the kernel fails.
    """
    lib = library()
    if lib is None:
        raise UnavailableError(
            "libtasc_cuda was not built: run `make install` with nvcc on PATH, or use --device cpu"
        )
    if code := getattr(lib, name)(*arguments):
        message = lib.tasc_cuda_error_string(code).decode()
        raise UnavailableError(f"a CUDA kernel failed: {message}; use --device cpu to avoid it")
