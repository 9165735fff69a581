"""What ``tasc augment`` would add at each budget, and reach, before any tokenizer is written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tasc.analysis.entropy import normalised
from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.outputs import Outputs, encode_outputs
from tasc.backend import MergeResult
from tasc.errors import InputError
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.search.budget import MOST, Point, budget_curve
from tasc.vocab.search.embedding_cost import embedding_cost
from tasc.vocab.search.options import OVERFIT_PENALTY, AugmentOptions
from tasc.vocab.search.refine import Choice, Refiner
from tasc.vocab.search.selection import most_tokens


@dataclass(frozen=True)
class BudgetPoint:
    """The training outputs after ``tasc augment --new-tokens M``, as its search predicts them."""

    budget: int  # M
    added: int  # new tokens; fewer than M where fewer shorten the outputs as far
    merges: int  # of the search for them, those included that only stand inside longer n-grams
    tokens_per_output: float  # mean, end tokens not counted
    bytes_per_token: float  # UTF-8 bytes by tokens
    h2_bits: float  # Rényi-2 entropy of the token distribution
    h1_bits: float  # Shannon entropy
    h1_normalised: float  # over log2(vocabulary + added)
    # Decoding steps without added tokens by steps with them; the end token is one
    step_ratio: float


@dataclass(frozen=True)
class Prediction:
    """What new tokens bring, by their number."""

    budgets: tuple[BudgetPoint, ...] = ()  # the grid; empty where the export cannot be written
    recommended_size: Point | None = None  # of ``--new-tokens auto``; None where no n-gram recurs
    step_ratio: float = 1.0  # of the recommended size
    refused: str | None = None  # why the tokenizer does not take the export


def predict_budgets(
    outputs: Outputs,
    tokenizer: LoadedTokenizer,
    options: AnalyzeOptions,
    held_out: Sequence[str] = (),
    progress: Progress = silent,
) -> Prediction:
    """Predict each of ``options.new_tokens`` and the recommended size from one search.

    The tokens are chosen by what chooses them for ``tasc augment``; it then leaves out those that
    the saved tokenizer never produces. Budgets beyond the last token are left out, but for the
    largest that ``tasc augment`` takes; so are those that add what a smaller one does. Rows cost
    what those of the model beside the tokenizer do, nothing where there is none.
    """
    others = encode_outputs(held_out, tokenizer, options.export) if held_out else None
    shared = {name: getattr(options, name) for name in ("source", "n_max", "pcs", "export")}
    try:
        refiner = Refiner(
            tokenizer, outputs, others, AugmentOptions(**shared, tokenizer=tokenizer.path)
        )
    except InputError as error:
        return Prediction(refused=str(error))
    result = refiner.survey(max(1, *options.new_tokens), progress)
    size, grid = len(tokenizer.vocabulary()), list[BudgetPoint]()
    for budget in _taken(refiner, result, sorted(set(options.new_tokens)), size, progress):
        point = _point(refiner.choose(result, budget, progress), budget, outputs, size)
        if not grid or point.merges != grid[-1].merges:
            grid.append(point)
    if not result.merges:
        return Prediction(tuple(grid))
    nested = replace(result, merges=result.merges[:MOST])
    rows = embedding_cost(Path(tokenizer.path))
    best = budget_curve(nested, size, outputs, others, rows, OVERFIT_PENALTY).recommended_size
    before = result.tokens_before / outputs.count + 1
    return Prediction(tuple(grid), best, before / best.train_steps)


def _taken(
    refiner: Refiner, result: MergeResult, budgets: list[int], size: int, progress: Progress
) -> Iterator[int]:
    """Yield the budgets that ``tasc augment`` takes; once the largest, where one is beyond it."""
    most = most_tokens(result, size)
    for budget in budgets:
        if budget > most and not refiner.choose(result, budget, progress).whole:
            yield most
            return
        yield budget


def _point(choice: Choice, budget: int, outputs: Outputs, vocabulary: int) -> BudgetPoint:
    result, merges = choice.result, choice.selection.length if budget else 0
    added = len(choice.selection.tokens) if budget else 0
    tokens, h2, h1 = result.tokens_before, result.h2_before, result.h1_before
    if merges:
        last = result.merges[merges - 1]
        tokens, h2, h1 = last.tokens, last.h2, last.h1
    lengths = np.array([len(text.encode()) for text in outputs.texts], dtype=np.int64)
    samples = outputs.count
    return BudgetPoint(
        budget=budget,
        added=added,
        merges=merges,
        tokens_per_output=tokens / samples,
        bytes_per_token=outputs.total(lengths) / max(tokens, 1),
        h2_bits=h2,
        h1_bits=h1,
        h1_normalised=normalised(h1, vocabulary + added),
        step_ratio=(result.tokens_before + samples) / (tokens + samples),
    )
