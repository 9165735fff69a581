"""Predict the effect of ``tasc augment`` by number of new tokens, without writing a tokenizer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tasc.analysis.entropy import normalised
from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.outputs import Outputs, encode_outputs
from tasc.backend import MergeResult
from tasc.errors import InputError
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.exports.export import companions
from tasc.vocab.search.budget import MOST, Point
from tasc.vocab.search.embedding_cost import EmbeddingCost
from tasc.vocab.search.options import AugmentOptions
from tasc.vocab.search.refine import Choice, Refiner
from tasc.vocab.search.selection import most_tokens


@dataclass(frozen=True)
class BudgetPoint:
    """The training outputs after ``tasc augment --new-tokens M``, as its search predicts them."""

    budget: int  # M
    added: int  # new tokens; fewer than M if fewer shorten the outputs as much
    merges: int  # of the search for them, including intermediate ones
    tokens_per_output: float  # mean, without end tokens
    bytes_per_token: float  # UTF-8 bytes per token
    h2_bits: float  # Rényi-2 entropy of the token distribution
    h1_bits: float  # Shannon entropy
    h1_normalised: float  # over log2(vocabulary + added)
    step_ratio: float  # decoding steps without new tokens / with them, including the end token


@dataclass(frozen=True)
class Prediction:
    """The predicted effect of new tokens by their number."""

    budgets: tuple[BudgetPoint, ...] = ()  # empty if the export does not support the tokenizer
    recommended_size: Point | None = None  # of ``--new-tokens auto``; None if no n-gram recurs
    step_ratio: float = 1.0  # at the recommended size, on the held-out outputs if there are any
    held_out: int = 0  # number of held-out outputs
    steps: float | None = None  # per training output without new tokens, with the end token
    refused: str | None = None  # why the export does not support the tokenizer


def predict_budgets(
    outputs: Outputs,
    tokenizer: LoadedTokenizer,
    options: AnalyzeOptions,
    held_out: Sequence[str] = (),
    rows: EmbeddingCost | None = None,
    progress: Progress = silent,
    train: Outputs | None = None,
) -> Prediction:
    """Predict each of ``options.new_tokens`` and the recommended size.

    ``train`` are the outputs to choose the recommended size from, if they are not all ``outputs``;
    ``held_out`` are others, to judge it on. Without ``train``, one search predicts both.

    ``Refiner.choose`` chooses the tokens, as for ``tasc augment``, which then also drops tokens
    that the saved tokenizer never produces. Budgets that ``tasc augment`` would refuse are replaced
    by the largest one that it accepts, and a budget that adds no more than a smaller one is
    skipped. ``rows`` is the cost of a new row for the model, if the model is known.
    """
    wanted = _augment_options(options, tokenizer)
    others = encode_outputs(held_out, tokenizer, options.export) if held_out else None
    try:
        refiner = Refiner(tokenizer, outputs, others, wanted, progress)
    except InputError as error:
        return Prediction(refused=str(error))
    result = refiner.search_for(max(1, *options.new_tokens), 0 if train else MOST)
    size, grid = len(tokenizer.vocabulary()), list[BudgetPoint]()
    for budget in _accepted(refiner, result, sorted(set(options.new_tokens)), size):
        point = _point(refiner.choose(result, budget), budget, outputs, size)
        if not grid or point.merges != grid[-1].merges:
            grid.append(point)
    if train:
        refiner = Refiner(tokenizer, train, others, wanted, progress)
        result = refiner.search_for(1, MOST)
    steps = result.tokens_before / (train or outputs).count + 1
    if not result.merges:
        return Prediction(tuple(grid), steps=steps)
    curve = refiner.curve(result.first(MOST), rows)
    return Prediction(tuple(grid), curve.recommended_size, curve.step_ratio, len(held_out), steps)


def augmented_with(
    count: int,
    outputs: Outputs,
    tokenizer: LoadedTokenizer,
    options: AnalyzeOptions,
    progress: Progress = silent,
) -> LoadedTokenizer:
    """Return the tokenizer with ``count`` new tokens for ``outputs``, as tasc augment makes it."""
    refiner = Refiner(tokenizer, outputs, None, _augment_options(options, tokenizer), progress)
    refined = refiner.run(str(options.source), count)
    return LoadedTokenizer(refined.tokenizer, tokenizer.path, companions(tokenizer))


def _augment_options(options: AnalyzeOptions, tokenizer: LoadedTokenizer) -> AugmentOptions:
    shared = {name: getattr(options, name) for name in ("source", "n_max", "pcs", "export")}
    return AugmentOptions(**shared, tokenizer=tokenizer.path)


def _accepted(refiner: Refiner, result: MergeResult, wanted: list[int], size: int) -> Iterator[int]:
    """Yield the budgets that ``tasc augment`` accepts; the first larger one becomes the maximum."""
    most = most_tokens(result, size)
    for budget in wanted:
        if budget > most and not refiner.choose(result, budget).whole:
            yield most
            return
        yield budget


def _point(choice: Choice, budget: int, outputs: Outputs, vocabulary: int) -> BudgetPoint:
    added = len(choice.selection.tokens) if budget else 0
    result = choice.result.first(choice.selection.length if budget else 0)
    tokens, h2, h1 = result.last
    lengths = np.array([len(text.encode()) for text in outputs.texts], dtype=np.int64)
    samples = outputs.count
    return BudgetPoint(
        budget=budget,
        added=added,
        merges=len(result.merges),
        tokens_per_output=tokens / samples,
        bytes_per_token=outputs.total(lengths) / max(tokens, 1),
        h2_bits=h2,
        h1_bits=h1,
        h1_normalised=normalised(h1, vocabulary + added),
        step_ratio=(result.tokens_before + samples) / (tokens + samples),
    )
