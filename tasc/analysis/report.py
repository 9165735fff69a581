"""The analysis of a task: words, tokens, budgets, and a verdict."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tasc.analysis.continuation import Replay, replay
from tasc.analysis.ngrams import WordStats, word_stats
from tasc.analysis.tokens import (
    BudgetPoint,
    Distinct,
    SearchOptions,
    TokenStats,
    budget_grid,
    distinct,
    encode_outputs,
    expand,
    token_stats,
)
from tasc.analysis.verdict import BUDGET, Evidence, Verdict, decide
from tasc.data.corpus import Corpus
from tasc.data.tokenizer import Encoded, LoadedTokenizer
from tasc.progress import Progress, silent

BUDGETS = (0, 50, 100, 250, 500, 1000, 2000)
# Token statistics of the inputs settle long before this; encoding them all would take minutes.
INPUT_SAMPLES = 5000
HELD_OUT_EVERY = 10  # one output in so many is replayed when no other split is given
_FEWEST_TO_SPLIT = 20


@dataclass(frozen=True)
class TokenReport:
    """What holds for one model's tokenizer.

    Attributes:
        tokenizer: where it came from.
        vocabulary: number of ids.
        export: which export the merges are for.
        input: statistics of the inputs, on an evenly spaced subset of at most 5,000.
        output: statistics of all outputs.
        budgets: the grid; its numbers are the search's own predictions.
        replay: held-out outputs through an n-gram table, None with too few outputs.
    """

    tokenizer: str
    vocabulary: int
    export: str
    input: TokenStats
    output: TokenStats
    budgets: tuple[BudgetPoint, ...]
    replay: Replay | None


@dataclass(frozen=True)
class TaskReport:
    """The analysis of one split.

    Attributes:
        path: of the source.
        split: its split.
        fingerprint: of the corpus.
        samples: rows analysed.
        dropped: rows left out for an empty output.
        distinct_outputs: different outputs.
        input: words of the inputs.
        output: words of the outputs.
        entropy_change: (output - input) / input entropy of word bigrams, Table 1's ΔH; 0 where
            the inputs have none.
        coverage_ratio: input n80 / output n80, Table 1's last column.
        tokens: token statistics, None without a tokenizer.
        verdict: what to use.
    """

    path: str
    split: str
    fingerprint: str
    samples: int
    dropped: int
    distinct_outputs: int
    input: WordStats
    output: WordStats
    entropy_change: float
    coverage_ratio: float
    tokens: TokenReport | None
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts, lists, numbers and strings."""
        return asdict(self)


def analyze(
    corpus: Corpus,
    tokenizer: LoadedTokenizer | None = None,
    *,
    budgets: Sequence[int] = BUDGETS,
    n_max: int = 4,
    alpha_pcs: float = 0.05,
    export: str = "pretoken",
    held_out: Corpus | None = None,
    progress: Progress = silent,
) -> TaskReport:
    """Analyse a split (Tsur et al., section 3, appendices D and E).

    Args:
        corpus: the split, usually "train".
        tokenizer: the model's; without one only words are looked at.
        budgets: grid of added tokens to predict, 0 for none.
        n_max: longest n-gram, of the statistics and of the merges.
        alpha_pcs: threshold of the prefix collision score.
        export: "pretoken" merges within or along pre-token boundaries, "added" anywhere.
        held_out: outputs to replay; None takes every tenth of the corpus out of the table.
        progress: told of each stage and of the merges.
    """
    options = SearchOptions(n_max, alpha_pcs, export)
    progress("words", 0, 2)
    inputs = word_stats(corpus.words("input"), n_max)
    progress("words", 1, 2)
    outputs = word_stats(corpus.words("output"), n_max)
    progress("words", 2, 2)
    repeated = distinct(corpus.outputs)
    tokens = None
    if tokenizer is not None:
        tokens = _tokens(corpus, repeated, tokenizer, budgets, options, held_out, progress)
    before, after = inputs.bigrams, outputs.bigrams
    change = after.entropy_bits / before.entropy_bits - 1 if before.entropy_bits else 0.0
    return TaskReport(
        path=corpus.source.path,
        split=corpus.split,
        fingerprint=corpus.fingerprint,
        samples=len(corpus.examples),
        dropped=corpus.dropped,
        distinct_outputs=len(repeated.texts),
        input=inputs,
        output=outputs,
        entropy_change=change,
        coverage_ratio=before.n80 / max(after.n80, 1),
        tokens=tokens,
        verdict=decide(_evidence(outputs, change, tokens)),
    )


def _tokens(
    corpus: Corpus,
    repeated: Distinct,
    tokenizer: LoadedTokenizer,
    budgets: Sequence[int],
    options: SearchOptions,
    held_out: Corpus | None,
    progress: Progress,
) -> TokenReport:
    size = len(tokenizer.vocabulary())
    progress("tokens", 0, 2)
    texts = [example.input for example in _evenly(corpus, INPUT_SAMPLES)]
    inputs = token_stats(tokenizer.encode(texts), _bytes(texts), size, options.n_max)
    progress("tokens", 1, 2)
    once = encode_outputs(repeated, tokenizer, options.export)
    encoded = expand(once.encoded, repeated.places)
    outputs = token_stats(encoded, _bytes(corpus.outputs), size, options.n_max)
    progress("tokens", 2, 2)
    later = None if held_out is None else tokenizer.encode(held_out.outputs)
    return TokenReport(
        tokenizer=tokenizer.path,
        vocabulary=size,
        export=options.export,
        input=inputs,
        output=outputs,
        budgets=budget_grid(once, tokenizer, budgets, options, progress),
        replay=_replay(encoded, later, options.n_max),
    )


def _replay(encoded: Encoded, held_out: Encoded | None, n_max: int) -> Replay | None:
    if held_out is not None:
        return replay(encoded, held_out, n_max)
    samples = len(encoded.offsets) - 1
    if samples < _FEWEST_TO_SPLIT:
        return None
    numbers = np.arange(samples)
    out = numbers % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
    return replay(expand(encoded, numbers[~out]), expand(encoded, numbers[out]), n_max)


def _evidence(outputs: WordStats, change: float, tokens: TokenReport | None) -> Evidence:
    words = Evidence(outputs.words_per_sample, outputs.bigrams.n80, change)
    if tokens is None:
        return words
    affordable = [point for point in tokens.budgets if point.budget <= BUDGET]
    point = max(affordable or tokens.budgets[:1], key=lambda point: point.budget)
    return Evidence(
        words.words_per_output,
        words.output_n80,
        change,
        steps_per_output=tokens.output.tokens_per_sample + 1,
        step_ratio=point.step_ratio,
        budget=point.added,
        tokens_per_step=tokens.replay.tokens_per_step if tokens.replay else None,
    )


def _evenly(corpus: Corpus, most: int) -> list[Any]:
    places = np.linspace(0, len(corpus.examples), min(most, len(corpus.examples)), endpoint=False)
    return [corpus.examples[int(place)] for place in places]


def _bytes(texts: Sequence[str]) -> int:
    return sum(len(text.encode()) for text in texts)
