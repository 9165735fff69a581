"""Requests and results of the merge search, and checks of arrays of samples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasc.errors import InputError

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]

LARGEST_ID = 2**31 - 2
N_MAX_LIMIT = 16  # longest n-gram of the merge search


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
    banned: frozenset[bytes] = frozenset()  # strings never proposed
    admit: Callable[[bytes], bool] | None = None  # called once per n-gram before its test
    min_frequency: int = 2  # n-grams that occur once do not recur
    min_reward: int = 0  # the search ends at an n-gram that saves fewer tokens


@dataclass(frozen=True)
class MergeResult:
    """The result of a merge search, which may have fewer merges than requested."""

    merges: tuple[Merge, ...]
    tokens_before: int
    tokens_after: int
    h2_before: float
    h1_before: float
    rejected: int  # number of n-grams rejected by PCS
    aliases: tuple[Alias, ...]


def check_weighted(tokens: Int32, offsets: Int64, weights: Int64) -> None:
    """Raise InputError unless tokens (T,), offsets (S + 1,) and weights (S,) fit together.

    Tokens are int32 from 0 to LARGEST_ID, offsets are int64, and weights are int64 from 1.
    """
    _check_array("tokens", tokens, np.int32)
    _check_array("offsets", offsets, np.int64)
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(tokens):
        raise InputError(f"offsets must run from 0 to the number of tokens, {len(tokens)}")
    if np.any(np.diff(offsets) < 0):
        raise InputError("offsets decrease: pass the bounds of the samples in order")
    if len(tokens) and tokens.min() < 0:
        raise InputError(f"token ids must not be negative, got {tokens.min()}")
    if len(tokens) and tokens.max() > LARGEST_ID:
        raise InputError(f"token ids must be at most {LARGEST_ID}, got {tokens.max()}")

    _check_array("weights", weights, np.int64)
    if len(weights) + 1 != len(offsets):
        raise InputError(
            f"{len(weights)} weights for {len(offsets) - 1} samples: pass one per sample"
        )
    if len(weights) and weights.min() < 1:
        raise InputError(f"weights must be at least 1, got {weights.min()}")


def check_request(request: MergeRequest) -> None:
    """Raise InputError for a request that cannot be searched."""
    check_weighted(request.tokens, request.offsets, request.weights)
    if request.boundaries is not None:
        _check_array("boundaries", request.boundaries, np.uint8)
        if len(request.boundaries) != len(request.tokens):
            raise InputError(
                f"{len(request.boundaries)} boundaries for {len(request.tokens)} tokens: "
                "pass one per token"
            )
    size = len(request.vocabulary)
    highest = max([*request.special, int(request.tokens.max(initial=-1))])
    if highest >= size or min(request.special, default=0) < 0:
        raise InputError(
            f"token id {highest} is not in the vocabulary of {size} tokens: "
            "encode with the same tokenizer"
        )
    if not 2 <= request.n_max <= N_MAX_LIMIT:
        raise InputError(f"n_max must lie in 2..{N_MAX_LIMIT}, got {request.n_max}")
    if not request.alpha_pcs >= 0:
        raise InputError(f"the PCS threshold must be 0 or more, got {request.alpha_pcs}")
    if request.budget < 0:
        raise InputError(f"the budget must be 0 or more, got {request.budget}")
    if request.min_frequency < 1:
        raise InputError(f"min_frequency must be at least 1, got {request.min_frequency}")
    if request.min_reward < 0:
        raise InputError(f"min_reward must be 0 or more, got {request.min_reward}")


def _check_array(name: str, array: npt.NDArray[np.generic], dtype: type[np.generic]) -> None:
    if array.ndim != 1 or array.dtype != dtype:
        wanted = np.dtype(dtype).name
        raise InputError(f"{name} must be a vector of {wanted}, got {array.dtype} {array.shape}")
