"""Native routines on arrays: n-gram counting and the merge search."""

from tasc.errors import UnavailableError

try:
    from tasc import _native
except ImportError as error:  # keep the message for the user
    raise UnavailableError(
        f"the native kernels are not built ({error}): run `make install`"
    ) from error

from tasc.backend.base import Alias as Alias
from tasc.backend.base import Merge as Merge
from tasc.backend.base import MergeRequest as MergeRequest
from tasc.backend.base import MergeResult as MergeResult
from tasc.backend.base import refusals
from tasc.backend.counts import CountedWords as CountedWords
from tasc.backend.counts import CountHistogram as CountHistogram
from tasc.backend.counts import WordCounter as WordCounter
from tasc.backend.counts import merge_counts as merge_counts
from tasc.backend.counts import write_counts as write_counts
from tasc.backend.merge_search import merge_search as merge_search

with refusals():  # $TASC_CPU_CAPABILITY may ask for instructions that this CPU does not have
    _native.dense_instructions()
