"""The analysis of a task: words, tokens and merges."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tasc.analysis.counted import Counted, Scan, merge
from tasc.analysis.entropy import WordStats, curve
from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.outputs import Outputs
from tasc.analysis.scan import scan
from tasc.analysis.tokens import TokenStats, TopMerge, merged_counts, request, top_merges
from tasc.backend import merge_search
from tasc.data.stream import Stream
from tasc.progress import Progress, silent
from tasc.report.record import Record
from tasc.tokenizer.loaded import LoadedTokenizer


class TokenReport(Record):
    """The statistics for one tokenizer."""

    tokenizer: str  # path or Hub id
    vocabulary: int  # number of ids
    export: str  # the export that the merges are for
    input: TokenStats
    output: TokenStats
    sampled: int  # distinct outputs that predictions use: all, or a sample that fits in memory
    # Cumulative distribution of output tokens, (rank, share), before any merge and after as many
    # as the largest number of new tokens
    frequency: tuple[tuple[tuple[int, float], ...], ...]
    top_merges: tuple[TopMerge, ...]


class TaskReport(Record):
    """The analysis of one split."""

    path: str  # of the source
    split: str
    fingerprint: str  # of the corpus
    samples: int  # examples analysed
    dropped: int  # examples with an empty output
    distinct_outputs: int
    input: WordStats
    output: WordStats
    # (output - input) / input entropy of word bigrams, ΔH in Table 1; 0 if the inputs have none
    entropy_change: float
    coverage_ratio: float  # input n80 / output n80, Table 1's last column
    tokens: TokenReport | None  # token statistics, None without a tokenizer


@dataclass(frozen=True)
class Analysis:
    """The report, and the data for predictions."""

    report: TaskReport
    scan: Scan
    searched: Outputs | None  # the outputs of the merge search; None without a tokenizer


def analyze(
    stream: Stream,
    tokenizer: LoadedTokenizer | None,
    options: AnalyzeOptions,
    *,
    counted: Sequence[Counted] = (),
    progress: Progress = silent,
) -> Analysis:
    """Analyse a split in one pass (Tsur et al., section 3, appendices D and E).

    The split may be larger than memory. Without a tokenizer, only words are analysed. ``counted``
    has the parts of the split in order, if it is already counted.
    """
    describe = partial(merge, counted) if counted else scan
    scanned = describe(stream, tokenizer, n_max=options.n_max, progress=progress)
    tokens = None
    once = None
    if tokenizer is not None:
        once = Outputs.encode(scanned.sample, tokenizer, options.export)
        tokens = _tokens(scanned, once, tokenizer, options, progress)
    return Analysis(_report(stream, scanned, tokens), scanned, once)


def _report(stream: Stream, scanned: Scan, tokens: TokenReport | None) -> TaskReport:
    before, after = scanned.input.words.bigrams, scanned.output.words.bigrams
    change = after.entropy_bits / before.entropy_bits - 1 if round(before.entropy_bits, 9) else 0.0
    return TaskReport(
        path=stream.source.path,
        split=stream.split,
        fingerprint=stream.fingerprint,
        samples=scanned.samples,
        dropped=scanned.dropped,
        distinct_outputs=scanned.distinct_outputs,
        input=scanned.input.words,
        output=scanned.output.words,
        entropy_change=change,
        coverage_ratio=before.n80 / max(after.n80, 1),
        tokens=tokens,
    )


def _tokens(
    scanned: Scan,
    once: Outputs,
    tokenizer: LoadedTokenizer,
    options: AnalyzeOptions,
    progress: Progress,
) -> TokenReport | None:
    """Describe the tokens of a scan, and merges of its distinct outputs ``once``."""
    if scanned.input.tokens is None or scanned.output.tokens is None:
        return None
    most = max(options.new_tokens)
    size = len(tokenizer.vocabulary())
    result = merge_search(request(once, tokenizer, most, options), progress)
    weights = np.repeat(once.weights, np.diff(once.encoded.offsets))
    counts = np.bincount(once.encoded.tokens, weights, minlength=size)
    counts = counts.astype(np.int64)  # doubles are exact up to 2^53
    return TokenReport(
        tokenizer=tokenizer.path,
        vocabulary=size,
        export=options.export,
        input=scanned.input.tokens,
        output=scanned.output.tokens,
        sampled=len(once.texts),
        frequency=(curve(counts), curve(merged_counts(counts, result, most))),
        top_merges=top_merges(result, once),
    )
