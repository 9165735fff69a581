"""Statistics of a model's tokens, and the search for merges that shorten a task's outputs."""

from dataclasses import dataclass

import numpy as np

from tasc.analysis.entropy import NgramStats
from tasc.analysis.options import MergeSearchOptions
from tasc.analysis.outputs import Distinct, Outputs
from tasc.backend import MergeRequest, MergeResult
from tasc.backend.base import Int64
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer

_SHOWN = 25
_AROUND = 30  # characters on each side of an example


@dataclass(frozen=True)
class TokenStats:
    """Tokens of the inputs or the outputs; n-grams do not cross samples."""

    samples: int
    tokens: int  # without end tokens
    used_tokens: int  # distinct tokens
    tokens_per_sample: float  # mean
    longest: int  # tokens of the longest sample
    bytes_per_token: float  # UTF-8 bytes per token
    ngrams: tuple[NgramStats, ...]  # n = 1, 2, …; normalised by the size of the vocabulary


def expand(encoded: Encoded, positions: Int64) -> Encoded:
    """Return the samples of ``encoded`` at ``positions``, in this order and with repetitions."""
    lengths = np.diff(encoded.offsets)[positions]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    shift = np.repeat(encoded.offsets[:-1][positions] - offsets[:-1], lengths)
    return Encoded(encoded.tokens[np.arange(offsets[-1]) + shift], offsets)


def request(
    once: Outputs, tokenizer: LoadedTokenizer, budget: int, options: MergeSearchOptions
) -> MergeRequest:
    """Ask for up to ``budget`` merges; they are nested, so one search covers all budgets."""
    return MergeRequest(
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


def merged_counts(counts: Int64, result: MergeResult, budget: int) -> Int64:
    """Return the count of each token after ``budget`` merges, (V + added,) int64.

    ``counts`` (V,) are those before the first merge, over the searched corpus.
    """
    merges = result.merges[:budget]
    after = np.concatenate([counts, np.zeros(len(merges), np.int64)])
    merged = [(merge.ids, merge.new_id, merge.frequency) for merge in merges]
    merged += [(a.ids, a.new_id, a.frequency) for a in result.aliases if a.after < len(merges)]
    for ids, new_id, frequency in merged:
        after[new_id] += frequency
        np.subtract.at(after, list(ids), frequency)
    return after


@dataclass(frozen=True)
class TopMerge:
    """One n-gram of the merge search."""

    text: str  # invalid UTF-8 is replaced
    frequency: int  # occurrences when it was chosen, including repeated outputs
    saved: int  # tokens, frequency · (n - 1)
    # Text before it, itself, and text after it in one output; empty if no output contains the text
    example: tuple[str, str, str]


def top_merges(result: MergeResult, outputs: Distinct) -> tuple[TopMerge, ...]:
    """Return the first merges, which have the largest rewards."""
    return tuple(
        TopMerge(text, merge.frequency, merge.reward, _example(text, outputs))
        for merge in result.merges[:_SHOWN]
        for text in [merge.string.decode(errors="replace")]
    )


def _example(text: str, outputs: Distinct) -> tuple[str, str, str]:
    """Return the n-gram in the first output with text before and after it, else in any output."""
    first = None
    for output in outputs.texts:
        before, ngram, after = output.partition(text)
        if ngram:
            example = before[-_AROUND:], ngram, after[:_AROUND]
            if before and after:
                return example
            first = first or example
    return first or ("", "", "")
