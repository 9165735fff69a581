"""Statistics over a model's tokens, and what each budget of added tokens would save."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc.analysis.entropy import normalised
from tasc.analysis.ngrams import NgramStats
from tasc.analysis.options import MergeSearchOptions
from tasc.analysis.outputs import Distinct, Outputs
from tasc.backend import MergeRequest, MergeResult, merge_search
from tasc.backend.base import Int64
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer


@dataclass(frozen=True)
class TokenStats:
    """Tokens of inputs or outputs; n-grams do not cross samples."""

    samples: int  # samples they were counted on
    tokens: int  # all tokens, end tokens not counted
    used_tokens: int  # different ones among them
    tokens_per_sample: float  # mean
    longest: int  # tokens of the longest sample
    bytes_per_token: float  # UTF-8 bytes by tokens
    ngrams: tuple[NgramStats, ...]  # n = 1, 2, …; normalised by the size of the model's vocabulary


@dataclass(frozen=True)
class BudgetPoint:
    """The training outputs after M merges."""

    budget: int  # M, as asked
    added: int  # merges there are; fewer than M where no further n-gram is worth one
    tokens_per_output: float  # mean, end tokens not counted
    bytes_per_token: float  # UTF-8 bytes by tokens
    h2_bits: float  # Rényi-2 entropy of the token distribution
    h1_bits: float  # Shannon entropy
    h1_normalised: float  # over log2(vocabulary + added)
    # Decoding steps without added tokens by steps with them; the end token is one
    step_ratio: float


def expand(encoded: Encoded, positions: Int64) -> Encoded:
    """Return the samples ``positions`` of ``encoded``, repeated and ordered as they say."""
    lengths = np.diff(encoded.offsets)[positions]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    shift = np.repeat(encoded.offsets[:-1][positions] - offsets[:-1], lengths)
    return Encoded(encoded.tokens[np.arange(offsets[-1]) + shift], offsets)


def search(
    once: Outputs,
    tokenizer: LoadedTokenizer,
    budget: int,
    options: MergeSearchOptions,
    progress: Progress = silent,
) -> MergeResult:
    """Search up to ``budget`` merges; they are nested, so one search serves every budget."""
    request = MergeRequest(
        tokens=once.encoded.tokens,
        offsets=once.encoded.offsets,
        weights=once.weights,
        vocabulary=tokenizer.vocabulary(),
        special=tokenizer.special_ids,
        budget=budget,
        n_max=options.n_max,
        alpha_pcs=options.pcs,
        boundaries=once.boundaries,
    )
    return merge_search(request, progress)


def budget_grid(
    result: MergeResult, outputs: Distinct, vocabulary: int, budgets: Sequence[int]
) -> tuple[BudgetPoint, ...]:
    """Predict every budget of the grid from one merge search.

    Budgets beyond the last merge are left out, but for the first of them if none ends there.
    """
    lengths = np.array([len(text.encode()) for text in outputs.texts], dtype=np.int64)
    samples, text_bytes = outputs.count, outputs.total(lengths)
    found = len(result.merges)
    asked = sorted(set(budgets))
    reached = [budget for budget in asked if budget <= found]
    beyond = [] if found in asked else [budget for budget in asked if budget > found][:1]
    return tuple(
        _point(budget, result, samples, text_bytes, vocabulary) for budget in reached + beyond
    )


def merged_counts(counts: Int64, result: MergeResult, budget: int) -> Int64:
    """Return how often each token occurs after ``budget`` merges, (V + added,) int64.

    Args:
        counts: (V,) before any merge, over the corpus that was searched.
        result: of the search.
        budget: merges that count.
    """
    merges = result.merges[:budget]
    after = np.concatenate([counts, np.zeros(len(merges), np.int64)])
    merged = [(merge.ids, merge.new_id, merge.frequency) for merge in merges]
    merged += [(a.ids, a.new_id, a.frequency) for a in result.aliases if a.after < len(merges)]
    for ids, new_id, frequency in merged:
        after[new_id] += frequency
        np.subtract.at(after, list(ids), frequency)
    return after


def _point(
    budget: int, result: MergeResult, samples: int, text_bytes: int, vocabulary: int
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
        h1_normalised=normalised(h1, vocabulary + added),
        step_ratio=(result.tokens_before + samples) / (tokens + samples),
    )
