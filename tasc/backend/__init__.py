"""Numeric work on plain arrays: n-gram counting and the merge search."""

from tasc.backend.base import (
    Alias,
    Backend,
    Merge,
    MergeRequest,
    MergeResult,
)
from tasc.backend.counts import CountHistogram, Counts, WordCounter
from tasc.errors import InputError

__all__ = [
    "Alias",
    "Backend",
    "CountHistogram",
    "Counts",
    "Merge",
    "MergeRequest",
    "MergeResult",
    "WordCounter",
    "get_backend",
]


def get_backend(name: str = "auto") -> Backend:
    """The backend called ``native`` (``auto`` is the same) or ``reference``.

    Raises UnavailableError when the native kernels are not built: the reference is too slow to
    stand in for them.
    """
    if name in {"auto", "native"}:
        from tasc.backend.native import NativeBackend

        return NativeBackend()
    if name == "reference":
        from tasc.backend.reference import ReferenceBackend

        return ReferenceBackend()
    raise InputError(f"no backend {name!r}: use auto, native or reference")
