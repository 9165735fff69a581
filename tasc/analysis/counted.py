"""The counts of a part of a split, and their merge to the statistics of the whole.

Runs of token n-grams merge in any order. The order of the parts matters for words, which are
numbered by appearance and whose n-grams cross the borders of samples.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasc.analysis.entropy import WordStats, describe
from tasc.analysis.outputs import Distinct
from tasc.analysis.sample import RowSample, Sample, SomeRows
from tasc.analysis.tokens import TokenStats
from tasc.backend import CountedWords, WordCounter, merge_counts
from tasc.backend.base import Int64

TOP = 25  # most frequent word bigrams that are reported
_N_WORDS = 4  # longest n-grams that are described


@dataclass(frozen=True)
class CountedSide:
    """The inputs or the outputs of a part of a split."""

    words: CountedWords  # n-grams of words
    total: int  # number of words
    runs: list[Path]  # n-grams of tokens, sorted runs; empty without a tokenizer
    tokens: int
    text_bytes: int  # UTF-8 bytes that were tokenised
    longest: int  # tokens of the longest text


@dataclass(frozen=True)
class Counted:
    """The counts of a part of a split."""

    samples: int  # examples with an output
    dropped: int  # examples without one
    input: CountedSide
    output: CountedSide
    sample: Distinct  # distinct outputs and their counts, chosen by ``Sample``
    hashes: npt.NDArray[np.uint64]  # (D,) of all distinct outputs
    rows: list[tuple[int, str, str]]  # hash, prompt and output of examples chosen by ``RowSample``


@dataclass(frozen=True)
class Side:
    """Statistics of the inputs or the outputs."""

    words: WordStats
    tokens: TokenStats | None  # None without a tokenizer
    counts: Int64 | None  # (V,) by token id; None without a tokenizer


@dataclass(frozen=True)
class Scan:
    """The statistics of a split."""

    samples: int  # examples with an output
    dropped: int  # examples without one
    distinct_outputs: int  # by 64-bit hash
    input: Side
    output: Side
    # Distinct outputs and their counts, in order of first appearance: all of them, or those with
    # the smallest hashes if there are too many
    sample: Distinct
    rows: SomeRows  # a random sample of examples with their prompts


def describe_all(parts: Sequence[Counted], vocabulary: int, n_max: int, folder: Path) -> Scan:
    """Merge the parts of a split, in order, and describe it with temporary runs in ``folder``.

    ``vocabulary`` is 0 without a tokenizer; n-grams end at ``n_max``, or at 4.
    """
    sample, some = Sample(), RowSample()
    for part in parts:
        sample.take(part.sample, part.hashes)
        some.take(part.rows)
    samples = sum(part.samples for part in parts)
    with ThreadPoolExecutor(2) as both:  # merging releases the interpreter
        calls = [
            (
                both.submit(_words, sides, samples, n_max, folder / name),
                both.submit(_tokens, sides, samples, vocabulary, n_max),
            )
            for name, sides in (
                ("out", [part.output for part in parts]),
                ("in", [part.input for part in parts]),
            )
        ]
        after, before = (Side(words.result(), *tokens.result()) for words, tokens in calls)
    dropped = sum(part.dropped for part in parts)
    kept = sample.finish(), some.finish()
    return Scan(samples, dropped, len(sample.distinct), before, after, *kept)


def _tokens(
    sides: Sequence[CountedSide], samples: int, vocabulary: int, n_max: int
) -> tuple[TokenStats | None, Int64 | None]:
    if not vocabulary:
        return None, None
    counts = merge_counts([run for side in sides for run in side.runs])
    tokens = sum(side.tokens for side in sides)
    stats = TokenStats(
        samples=samples,
        tokens=tokens,
        used_tokens=len(counts.ids),
        tokens_per_sample=tokens / max(samples, 1),
        longest=max(side.longest for side in sides),
        bytes_per_token=sum(side.text_bytes for side in sides) / max(tokens, 1),
        ngrams=tuple(
            describe(counts.spectra[n - 1], n, vocabulary)
            for n in range(1, min(n_max, _N_WORDS) + 1)
        ),
    )
    return stats, counts.dense(vocabulary)


def _words(sides: Sequence[CountedSide], samples: int, n_max: int, prefix: Path) -> WordStats:
    words, total = WordCounter(prefix), sum(side.total for side in sides)
    for side in sides:
        words.take(side.words)
    counts = merge_counts(words.finish(), TOP)
    pairs = counts.spectra[1]
    return WordStats(
        samples=samples,
        words=total,
        distinct_words=len(counts.ids),
        words_per_sample=total / max(samples, 1),
        ngrams=tuple(
            describe(counts.spectra[n - 1], n, len(counts.ids))
            for n in range(1, min(max(n_max, 2), _N_WORDS) + 1)
        ),
        top=tuple(
            (" ".join(map(words.word, ids)), count)
            for ids, count in zip(pairs.top_ids.tolist(), pairs.top_counts.tolist(), strict=True)
        ),
    )
