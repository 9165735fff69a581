"""Native routines on arrays: n-gram counting and the merge search."""

from tasc.errors import UnavailableError

try:
    from tasc import _native  # noqa: F401 - needed by everything below
except ImportError as error:  # keep the message for the user
    raise UnavailableError(
        f"the native kernels are not built ({error}): run `make install`"
    ) from error

from tasc.backend.base import Alias, Merge, MergeRequest, MergeResult
from tasc.backend.counts import (
    CountedWords,
    CountHistogram,
    Counts,
    WordCounter,
    merge_counts,
    write_counts,
)
from tasc.backend.merge_search import merge_search

__all__ = [
    "Alias",
    "CountHistogram",
    "CountedWords",
    "Counts",
    "Merge",
    "MergeRequest",
    "MergeResult",
    "WordCounter",
    "merge_counts",
    "merge_search",
    "write_counts",
]
