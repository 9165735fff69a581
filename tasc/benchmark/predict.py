"""Predict the cells of a bench from simulations and measured costs.

A simulation on the reference outputs gives the tokens that each step commits. T(k) of the target on
this device gives the cost of each step (``models/cost.py``). A prediction is wrong where the model
writes other outputs than the references.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tasc.analysis.entropy import renyi_bits
from tasc.benchmark.matrix import Cell
from tasc.benchmark.options import BenchOptions
from tasc.benchmark.results import cells as results
from tasc.benchmark.results.prediction import (
    EntropyAndRuntime,
    EntropyPoint,
    PredictedCell,
    Prediction,
    StepFigures,
    speedup_interval,
)
from tasc.data.corpus import Corpus
from tasc.decoding.policy import Policy
from tasc.decoding.simulate import References, simulate
from tasc.models.cost import measured_cost
from tasc.models.cost_model import CostModel
from tasc.models.load import DecodingDtype, Device, load_to_decode
from tasc.models.targets.fastest import target_for
from tasc.tokenizer.loaded import LoadedTokenizer

Simulated = tuple[StepFigures, np.ndarray]  # a method, and its ms (turns,) by each turn of T(k)


def predict(
    cells: Sequence[Cell],
    corpus: Corpus,
    test: Corpus,
    options: BenchOptions,
    measured: Sequence[results.Cell],
) -> Prediction:
    """Predict the cells that draft from tokens alone, and compare them with ``measured``.

    Speed-ups are over the first of ``cells``. Batches are not predicted: T(k) is for one sequence.
    """
    predicted = dict[tuple[str, str], Simulated]()
    if options.batch_size == 1 and cells[0].method.entry.simulates:
        for label in dict.fromkeys(cell.model.label for cell in cells):
            cells_of_model = [cell for cell in cells if cell.model.label == label]
            for method, simulated in _predict_model(cells_of_model, test, options.max_new_tokens):
                predicted[label, method] = simulated
    first = predicted.get((measured[0].model, measured[0].method))
    rows = [
        _compared(predicted[cell.model, cell.method], first, cell, measured[0])
        for cell in measured
        if first and (cell.model, cell.method) in predicted
    ]
    entropy = entropy_and_runtime(cells, corpus, measured) if corpus.examples else None
    return Prediction(cells=tuple(rows), entropy=entropy)


def cost_of(
    folder: str, dtype: DecodingDtype, device: Device, tokenizer: LoadedTokenizer | None
) -> CostModel:
    """Measure T(k) of a model here. ``tokenizer`` is its own, None if another one is used."""
    target = target_for(load_to_decode(folder, dtype, device, tokenizer))
    cost = measured_cost(target, fresh=True)
    return replace(cost, chains_only=target.chains_only, drafts_first=target.drafts_first)


def _predict_model(
    cells: Sequence[Cell], test: Corpus, max_new_tokens: int
) -> Iterator[tuple[str, Simulated]]:
    """Yield the methods of one model that draft from tokens alone, by label."""
    model = cells[0].model
    cost = measured_cost(model.target, fresh=True)  # right after the run that it predicts
    references = References.of(
        model.tokenizer,
        test.prompts,
        test.outputs,
        max_new_tokens=max_new_tokens,
        chains_only=model.target.chains_only,
        drafts_first=model.target.drafts_first,
    )
    for cell in cells:
        if not cell.method.entry.simulates:
            continue
        # A new policy and new drafters, which have not seen these outputs
        policy = Policy(cost if cell.policy.adapts else None, learns=False)
        fresh = replace(cell, policy=policy)
        fresh.forget()
        steps = simulate(fresh.factory, references, cell.method.budget, fresh.policy)
        ms = steps.ms_per_sample(references.unread, cost)
        figures = StepFigures(**steps.to_dict(), ms_per_sample=ms)
        yield cell.method.label, (figures, steps.ms_by_turn(references.unread, cost))


def _compared(
    simulated: Simulated, first: Simulated, cell: results.Cell, first_cell: results.Cell
) -> PredictedCell:
    (figures, ms) = simulated
    (plain, plain_ms) = first
    measured = cell.speedup(first_cell)
    speedup = (plain.ms_per_sample or 0.0) / (figures.ms_per_sample or 1.0)
    # The methods of a model share the turns; the turns of two models are independent.
    own_ms = ms if cell.model == first_cell.model else ms[:, None]
    interval = speedup_interval(speedup, plain_ms, own_ms)
    return PredictedCell(
        **dict(figures) | {"speedup": speedup, "speedup_interval": interval},
        model=cell.model,
        method=cell.method,
        measured_speedup=measured,
        speedup_error=speedup / measured - 1,
        measured_tokens_per_step=cell.tokens_per_step,
        tokens_per_step_error=figures.tokens_per_step / cell.tokens_per_step - 1,
    )


def entropy_and_runtime(
    cells: Sequence[Cell], corpus: Corpus, measured: Sequence[results.Cell]
) -> EntropyAndRuntime | None:
    """Compare H_2 of the corpus' outputs with the run times of models with other vocabularies.

    Appendix E of Tsur et al., with the first method. None below two different vocabularies.
    """
    models = {cell.model.label: cell.model for cell in cells}
    smallest = min(len(model.tokenizer.vocabulary()) for model in models.values())
    method = cells[0].method.label
    ms = {row.model: row.ms_per_sample for row in measured if row.method == method}
    points: dict[int, EntropyPoint] = {}
    for label, model in models.items():
        size = len(model.tokenizer.vocabulary())
        if label in ms and size not in points:
            tokens = model.tokenizer.encode(corpus.outputs).tokens
            h2 = renyi_bits(np.bincount(tokens, minlength=size).astype(np.int64))
            points[size] = EntropyPoint(budget=size - smallest, h2=h2, runtime=ms[label])
    return agreement(method, points.values()) if len(points) > 1 else None


def agreement(method: str, sequence: Iterable[EntropyPoint]) -> EntropyAndRuntime:
    """Compare H_2(M) and runtime(M) over models with different numbers M of new tokens."""
    points = sorted(sequence, key=lambda point: point.budget)
    tau, p_value = _kendall([p.h2 for p in points], [p.runtime for p in points])
    rises = [(low, high) for low, high in pairwise(points) if high.h2 > low.h2]
    falls = sum(high.runtime < low.runtime for low, high in rises)
    return EntropyAndRuntime(
        method=method,
        points=tuple(points),
        tau=tau,
        p_value=p_value,
        directional_rate=falls / len(rises) if rises else None,
        rises=len(rises),
    )


def _kendall(values: Sequence[float], others: Sequence[float]) -> tuple[float | None, float | None]:
    """Return Kendall's tau and its p-value; None if all values of one side are equal."""
    if len({*values}) < 2 or len({*others}) < 2:
        return None, None
    from scipy.stats import kendalltau

    test = kendalltau(values, others)
    return float(test.statistic), float(test.pvalue)
