"""The optional CUDA kernels, loaded through ctypes: no link against torch or libcudart."""

import ctypes
from functools import cache
from importlib.resources import files

from tasc.errors import UnavailableError

DTYPES = {"torch.float32": 0, "torch.float16": 1, "torch.bfloat16": 2}


@cache
def library() -> ctypes.CDLL | None:
    """Return the CUDA kernel library, or None where it was not built."""
    path = files("tasc") / "libtasc_cuda.so"
    if not path.is_file():
        return None
    lib = ctypes.CDLL(str(path))
    pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    lib.tasc_ancestor_bits.argtypes = [pointer, i32, pointer, pointer, pointer]
    lib.tasc_verify_greedy.argtypes = [
        *(pointer, i32, i64, pointer, pointer, i32),
        *(pointer, pointer, pointer),
    ]
    lib.tasc_cuda_error_string.restype = ctypes.c_char_p
    return lib


def check(code: int) -> None:
    """Raise what a call of the library returned, in words."""
    lib = library()
    if code and lib is not None:
        message = lib.tasc_cuda_error_string(code).decode()
        raise UnavailableError(f"a CUDA kernel failed: {message}; use --device cpu to go without")
