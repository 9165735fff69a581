"""Statistics over a model's tokens, and what each budget of added tokens would save."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasc.analysis.entropy import normalised
from tasc.analysis.ngrams import NgramStats, describe
from tasc.backend import MergeRequest, MergeResult, get_backend
from tasc.data.tokenizer import Encoded, LoadedTokenizer
from tasc.errors import InputError
from tasc.progress import Progress, silent

Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class TokenStats:
    """Tokens of inputs or outputs; n-grams do not cross samples.

    Attributes:
        samples: samples they were counted on; a subset of long inputs, see ``analyze``.
        tokens: all tokens, end tokens not counted.
        used_tokens: different ones among them.
        tokens_per_sample: mean.
        longest: tokens of the longest sample.
        bytes_per_token: UTF-8 bytes by tokens.
        ngrams: n = 1, 2, …; normalised by the size of the model's vocabulary.
    """

    samples: int
    tokens: int
    used_tokens: int
    tokens_per_sample: float
    longest: int
    bytes_per_token: float
    ngrams: tuple[NgramStats, ...]


@dataclass(frozen=True)
class BudgetPoint:
    """The training outputs after M merges.

    Attributes:
        budget: M, as asked.
        added: merges there are; fewer than M where no further n-gram is worth one.
        tokens_per_output: mean, end tokens not counted.
        bytes_per_token: UTF-8 bytes by tokens.
        h2_bits: Rényi-2 entropy of the token distribution.
        h1_bits: Shannon entropy.
        h1_normalised: over log2(vocabulary + added).
        step_ratio: decoding steps without added tokens by steps with them; the end token is one.
    """

    budget: int
    added: int
    tokens_per_output: float
    bytes_per_token: float
    h2_bits: float
    h1_bits: float
    h1_normalised: float
    step_ratio: float


@dataclass(frozen=True)
class Distinct:
    """Texts without repetition: each distinct one once, in order of first appearance.

    Attributes:
        texts: the distinct texts.
        weights: (S,) int64, how often each occurs.
        places: (N,) int64, the distinct text of each original one.
    """

    texts: list[str]
    weights: Int64
    places: Int64


@dataclass(frozen=True)
class EncodedOutputs:
    """Distinct outputs as tokens.

    Attributes:
        outputs: their texts and weights.
        encoded: their tokens.
        starts: (T,) uint8, 1 where a pre-token starts; None when merges may ignore that.
    """

    outputs: Distinct
    encoded: Encoded
    starts: UInt8 | None


@dataclass(frozen=True)
class SearchOptions:
    """Rules of the merge search (Tsur et al., Algorithm 1); ``export`` as in ``analyze``."""

    n_max: int = 4
    alpha_pcs: float = 0.05
    export: str = "pretoken"

    def __post_init__(self) -> None:
        """Check the export, which the backend does not know."""
        if self.export not in {"pretoken", "added"}:
            raise InputError(f"no export {self.export!r}: use pretoken or added")


def distinct(texts: Sequence[str]) -> Distinct:
    """Count identical texts once, with their multiplicity."""
    numbers: dict[str, int] = {}
    places = np.fromiter(
        (numbers.setdefault(text, len(numbers)) for text in texts), np.int64, len(texts)
    )
    weights = np.bincount(places, minlength=len(numbers)).astype(np.int64)
    return Distinct(list(numbers), weights, places)


def encode_outputs(outputs: Distinct, tokenizer: LoadedTokenizer, export: str) -> EncodedOutputs:
    """Encode each distinct output once, with pre-token boundaries for the export "pretoken"."""
    if export != "pretoken":
        return EncodedOutputs(outputs, tokenizer.encode(outputs.texts), None)
    return EncodedOutputs(outputs, *tokenizer.encode_with_boundaries(outputs.texts))


def expand(encoded: Encoded, places: Int64) -> Encoded:
    """Return the samples ``places`` of ``encoded``, repeated and ordered as they say."""
    lengths = np.diff(encoded.offsets)[places]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    shift = np.repeat(encoded.offsets[:-1][places] - offsets[:-1], lengths)
    return Encoded(encoded.tokens[np.arange(offsets[-1]) + shift], offsets)


def token_stats(encoded: Encoded, text_bytes: int, vocabulary: int, n_max: int) -> TokenStats:
    """Describe the token n-grams of ``encoded``, n = 1 to n_max.

    Args:
        encoded: the samples, repetitions included.
        text_bytes: UTF-8 bytes of their texts.
        vocabulary: size of the model's vocabulary.
        n_max: longest n-gram.
    """
    backend = get_backend()
    rows = [
        describe(backend.count_ngrams(encoded.tokens, encoded.offsets, n).counts, n, vocabulary)
        for n in range(1, n_max + 1)
    ]
    lengths = np.diff(encoded.offsets)
    return TokenStats(
        samples=len(lengths),
        tokens=len(encoded.tokens),
        used_tokens=rows[0].distinct,
        tokens_per_sample=float(lengths.mean()) if len(lengths) else 0.0,
        longest=int(lengths.max(initial=0)),
        bytes_per_token=text_bytes / max(len(encoded.tokens), 1),
        ngrams=tuple(rows),
    )


def budget_grid(
    once: EncodedOutputs,
    tokenizer: LoadedTokenizer,
    budgets: Sequence[int],
    options: SearchOptions,
    progress: Progress = silent,
) -> tuple[BudgetPoint, ...]:
    """Predict every budget of the grid from one merge search: the merges are nested.

    Budgets beyond the last merge are left out, but for the first of them.
    """
    if not budgets or min(budgets) < 0:
        raise InputError(f"budgets must be 0 or more, saw {list(budgets) or 'none'}")
    outputs, encoded = once.outputs, once.encoded
    strings = tokenizer.vocabulary()
    request = MergeRequest(
        tokens=encoded.tokens,
        offsets=encoded.offsets,
        weights=outputs.weights,
        vocabulary=strings,
        special=tokenizer.special_ids,
        budget=max(budgets),
        n_max=options.n_max,
        alpha_pcs=options.alpha_pcs,
        boundaries=once.starts,
    )
    result = get_backend().merge_search(request, progress)
    lengths = np.array([len(text.encode()) for text in outputs.texts], dtype=np.int64)
    found = len(result.merges)
    asked = sorted(set(budgets))
    reached = [budget for budget in asked if budget <= found]
    beyond = [budget for budget in asked if budget > found][:1]
    return tuple(
        _point(budget, result, int(outputs.weights.sum()), int(lengths @ outputs.weights), strings)
        for budget in reached + beyond
    )


def _point(
    budget: int, result: MergeResult, samples: int, text_bytes: int, strings: Sequence[bytes]
) -> BudgetPoint:
    added = min(budget, len(result.merges))
    tokens, h2, h1 = result.tokens_before, result.h2_before, result.h1_before
    if added:
        last = result.merges[added - 1]
        tokens, h2, h1 = last.tokens, last.h2, last.h1
    return BudgetPoint(
        budget=budget,
        added=added,
        tokens_per_output=tokens / samples,
        bytes_per_token=text_bytes / max(tokens, 1),
        h2_bits=h2,
        h1_bits=h1,
        h1_normalised=normalised(h1, len(strings) + added),
        step_ratio=(result.tokens_before + samples) / (tokens + samples),
    )
