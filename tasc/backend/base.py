"""Requests and results of the merge search, and the errors of native routines."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tasc.errors import InputError

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]


@contextmanager
def refusals() -> Iterator[None]:
    """Turn ValueError of a native routine into InputError."""
    try:
        yield
    except ValueError as error:
        raise InputError(str(error)) from error


@dataclass(frozen=True)
class Merge:
    """A new token, in order of acceptance."""

    ids: tuple[int, ...]  # of its parts: base ids and earlier new ids
    new_id: int
    string: bytes
    frequency: int  # weighted, non-overlapping
    reward: int  # frequency * (n - 1)
    pcs: float
    tokens: int  # weighted length of the corpus after the merge
    h2: float  # Rényi-2 entropy of the token distribution after the merge, bits
    h1: float = 0.0  # Shannon entropy, bits
    inner: int = 0  # occurrences inside a pre-token that are not all of it


@dataclass(frozen=True)
class Alias:
    """Other parts with the text of a new token; their occurrences become that token."""

    ids: tuple[int, ...]
    new_id: int
    frequency: int
    inner: int  # as in Merge
    after: int  # number of merges accepted before it


@dataclass(frozen=True)
class MergeRequest:
    """The corpus and the options of a merge search (Tsur et al., section 4.1, Algorithm 1).

    With ``boundaries``, an occurrence counts only if it begins and ends at pre-token boundaries,
    including the ends of a sample, or if it is an ordinary BPE merge: a pair whose second token
    does not start a pre-token.
    """

    tokens: Int32  # (T,) all samples, concatenated
    offsets: Int64  # (S + 1,) sample s is tokens[offsets[s]:offsets[s + 1]]
    weights: Int64  # (S,) multiplicity of each distinct sample, >= 1
    vocabulary: Sequence[bytes]  # bytes of each base token; b"" for special and unused ids
    special: frozenset[int]  # ids that no n-gram may contain, besides those without bytes
    budget: int
    n_max: int = 4
    alpha_pcs: float = 0.05
    conditional: bool = False  # PCS given the preceding n - 1 tokens
    boundaries: UInt8 | None = None  # (T,) 1 where a pre-token starts
    admit: Callable[[bytes], bool] | None = None  # called once per n-gram before its test
    min_frequency: int = 2  # n-grams that occur once do not recur
    min_reward: int = 0  # the search ends at an n-gram that saves fewer tokens


@dataclass(frozen=True)
class MergeResult:
    """The result of a merge search, which may have fewer merges than requested."""

    merges: tuple[Merge, ...]
    tokens_before: int
    h2_before: float
    h1_before: float
    rejected: int  # number of n-grams rejected by PCS
    aliases: tuple[Alias, ...]

    def first(self, length: int) -> "MergeResult":
        return replace(self, merges=self.merges[:length])

    @property
    def last(self) -> tuple[int, float, float]:
        """The tokens after the merges, and the Rényi-2 and Shannon entropies in bits."""
        if not self.merges:
            return self.tokens_before, self.h2_before, self.h1_before
        return self.merges[-1].tokens, self.merges[-1].h2, self.merges[-1].h1
