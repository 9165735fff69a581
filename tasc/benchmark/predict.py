"""What a model and a drafter will reach, before they run: simulations joined with measured costs.

A simulation on reference outputs says how many tokens each step commits; T(k) of the target on this
device says what the step costs (``models/cost.py``). Departures from this are what the model does:
it may write other outputs than the references.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
from tasc.decoding.adaptive import Adaptive
from tasc.decoding.drafters import DRAFTERS
from tasc.decoding.simulate import References, simulate
from tasc.errors import InputError
from tasc.models.cost import measured_cost
from tasc.models.cost_model import CostModel
from tasc.models.load import Device, Dtype, load_model
from tasc.models.packed import pack
from tasc.models.static import target_for
from tasc.tokenizer.loaded import LoadedTokenizer


@dataclass(frozen=True)
class Simulated:
    """A method of a model, simulated, and its milliseconds (turns,) by each turn of T(k)."""

    model: str
    figures: StepFigures
    ms_by_turn: np.ndarray


Figures = dict[str, Simulated]


def predict(
    cells: Sequence[Cell],
    corpus: Corpus,
    test: Corpus,
    options: BenchOptions,
    measured: Sequence[results.Cell],
) -> Prediction:
    """Predict a bench from its references alone and say how far off that was.

    Speed-ups are against the first of ``cells``, whose records are ``measured``; drafters know the
    outputs of ``corpus``. Returns the cells that draft from tokens alone, with the errors
    (predicted - measured) / measured, and ``entropy_and_runtime``. In batches nothing is
    predicted: T(k) is of one sequence.
    """
    predicted: dict[str, Figures] = {}
    if options.batch_size == 1 and _simulates(cells[0]):
        for label in dict.fromkeys(cell.model.label for cell in cells):
            own = [cell for cell in cells if cell.model.label == label]
            predicted[label] = _predict_model(own, test, options.max_new_tokens)
    rows = []
    for seen in measured:
        found = predicted.get(seen.model, {}).get(seen.method)
        first = predicted.get(cells[0].model.label, {}).get(cells[0].method.label)
        if found and first:
            rows.append(_compared(found, first, seen, measured[0]))
    entropy = entropy_and_runtime(cells, corpus, measured) if corpus.examples else None
    return Prediction(cells=tuple(rows), entropy=entropy)


def cost_of(
    folder: str, dtype: Dtype, device: Device, tokenizer: LoadedTokenizer | None
) -> CostModel:
    """Measure T(k) of a model here; ``tokenizer`` is its own, None where another one encodes."""
    model = load_model(folder, dtype=dtype, device=device, tokenizer=tokenizer)
    pack(model)
    return measured_cost(target_for(model), fresh=True)


def _simulates(cell: Cell) -> bool:
    return DRAFTERS[cell.method.name].simulates


def _predict_model(cells: Sequence[Cell], test: Corpus, max_new_tokens: int) -> Figures:
    """Predict the methods of one model."""
    model = cells[0].model
    cost = measured_cost(model.target, fresh=True)  # seconds before what it is compared with
    references = References.of(model.tokenizer, test.prompts, test.outputs, max_new_tokens)
    result = {}
    for cell in filter(_simulates, cells):
        # Budget and drafter begin as before the run: they know nothing of these outputs.
        fresh = replace(cell, policy=Adaptive(cost, learns=False) if cell.policy else None)
        fresh.forget()
        found = simulate(fresh.drafter, references, cell.method.budget)
        ms = found.ms_per_sample(references.prompts, cost)
        result[cell.method.label] = Simulated(
            model.label,
            StepFigures(**found.to_dict(), ms_per_sample=ms),
            found.ms_by_turn(references.prompts, cost),
        )
    return result


def _compared(
    own: Simulated, first: Simulated, seen: results.Cell, seen_first: results.Cell
) -> PredictedCell:
    found = own.figures
    speedup = (first.figures.ms_per_sample or 0.0) / (found.ms_per_sample or 1.0)
    # Turns of one model are shared by its methods; those of two have nothing to do with each other.
    ms = own.ms_by_turn if own.model == first.model else own.ms_by_turn[:, None]
    interval = speedup_interval(speedup, first.ms_by_turn, ms)
    measured = seen.speedup(seen_first)
    return PredictedCell(
        **dict(found) | {"speedup": speedup, "speedup_interval": interval},
        model=seen.model,
        method=seen.method,
        measured_speedup=measured,
        speedup_error=speedup / measured - 1,
        measured_tokens_per_step=seen.tokens_per_step,
        tokens_per_step_error=found.tokens_per_step / seen.tokens_per_step - 1,
    )


def entropy_and_runtime(
    cells: Sequence[Cell], corpus: Corpus, measured: Sequence[results.Cell]
) -> EntropyAndRuntime | None:
    """Compare H_2 of the corpus' outputs with runtimes over models that differ in their budget.

    Appendix E of Tsur et al., for the first method that every model ran. None for fewer than two
    different vocabularies.
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
    """Compare H_2(M) and runtime(M) over models that differ in the budget only, in order of M.

    Raises:
        InputError: fewer than two points, or two with the same budget.
    """
    points = sorted(sequence, key=lambda point: point.budget)
    if len(points) < 2:
        raise InputError(f"a rank correlation needs two budgets or more, saw {len(points)}")
    if any(low.budget == high.budget for low, high in pairwise(points)):
        raise InputError(
            "the budgets of a sequence must differ: take the mean of repeated runs first"
        )
    tau, p_value = _kendall([point.h2 for point in points], [point.runtime for point in points])
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


def _kendall(left: list[float], right: list[float]) -> tuple[float | None, float | None]:
    from scipy.stats import kendalltau

    if len(set(left)) == 1 or len(set(right)) == 1:
        return None, None
    result = kendalltau(left, right)
    return float(result.statistic), float(result.pvalue)
