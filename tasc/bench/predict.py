"""What a model and a drafter will reach, before they run: replays joined with measured costs.

A replay of reference outputs says how many tokens each step settles; T(k) of the target on this
device says what the step costs (``models/cost.py``). Departures from this are what the model does:
it may write other outputs than the references.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tasc.analysis.entropy import renyi_bits
from tasc.analysis.predict import Measured, agreement
from tasc.bench import record
from tasc.bench.matrix import Cell, Limits
from tasc.data.corpus import Corpus
from tasc.errors import InputError
from tasc.models.cost import CostCurve, cost_curve
from tasc.spec.budget import Adaptive
from tasc.spec.drafters import Factory
from tasc.spec.replay import Replay, replay

MOST_SAMPLES = 400  # of a replay: means settle long before
# Methods that draft from tokens alone: others need what the target computes.
REPLAYABLE = frozenset(
    {"ar", "tasc-spec", "tasc-spec-paper", "corpus", "prompt", "prompt-lookup"}
    | {"ngram-trie", "suffix", "ngrammys"}
)


@dataclass(frozen=True)
class Steps:
    """The steps that decoding the references would take.

    Attributes:
        samples: references replayed.
        tokens_per_output: the end token included.
        steps_per_output: forwards that settle tokens, that of the prompt included.
        acceptance_length: tokens that a step with a draft settles; 1 without drafts.
    """

    samples: int
    tokens_per_output: float
    steps_per_output: float
    acceptance_length: float

    @classmethod
    def of(cls, lived: Replay, samples: int) -> "Steps":
        """Sum up a replay of ``samples`` outputs in which prefill settled the first tokens."""
        return cls(
            samples=samples,
            tokens_per_output=lived.tokens / samples,
            steps_per_output=lived.steps / samples + 1,
            acceptance_length=lived.acceptance_length,
        )


@dataclass(frozen=True)
class Prediction(Steps):
    """Their time, too: ``ms_per_sample`` for reading the prompt, drafting, and forwards by T(k)."""

    ms_per_sample: float


def predict(
    factory: Factory,
    prompts: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    end: int,
    budget: int,
    cost: CostCurve,
) -> Prediction:
    """Replay ``outputs`` after ``prompts``, int32 each, and price every step by ``cost``."""
    lived = replay(factory, prompts, outputs, end, budget, prefilled=True)
    return prediction(lived, prompts, cost)


def prediction(lived: Replay, prompts: Sequence[np.ndarray], cost: CostCurve) -> Prediction:
    """Price every step of a replay whose prompts' forwards settled the first tokens.

    T beyond its last size is as between the last two, also for prompts.
    """
    samples = len(prompts)
    reading = cost.at([max(len(prompt), 1) for prompt in prompts]).sum()
    seconds = float(reading + cost.at(lived.nodes + 1).sum()) + lived.draft_seconds
    return Prediction(**asdict(Steps.of(lived, samples)), ms_per_sample=1000 * seconds / samples)


def foresee(
    cells: Sequence[Cell],
    corpus: Corpus,
    test: Corpus,
    limits: Limits,
    measured: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Predict a bench from its references alone and say how far off that was.

    Args:
        cells: what ran; the first one is what speed-ups are against.
        corpus: the outputs that drafters know.
        test: prompts and references.
        limits: of the run. In batches nothing is predicted: T(k) is of one sequence.
        measured: the records of the cells.

    Returns:
        "cells": a dict for each cell that draws on tokens only, with the measured figures and the
        errors (predicted - measured) / measured; "entropy": see ``entropy_and_runtime``.
    """
    predicted: dict[str, dict[str, Prediction]] = {}
    if limits.batch_size == 1 and cells[0].method.name in REPLAYABLE:
        for label in dict.fromkeys(cell.model.label for cell in cells):
            own = [cell for cell in cells if cell.model.label == label]
            predicted[label] = _predict_model(own, test, limits.max_new_tokens)
    rows = []
    for cell, seen in zip(cells, measured, strict=True):
        found = predicted.get(cell.model.label, {}).get(cell.method.label)
        first = predicted.get(cells[0].model.label, {}).get(cells[0].method.label)
        if found and first:
            rows.append(_compared(cell, found, first, seen, measured[0]))
    return {"cells": rows, "entropy": entropy_and_runtime(cells, corpus, measured)}


def _predict_model(
    cells: Sequence[Cell], test: Corpus, max_new_tokens: int
) -> dict[str, Prediction]:
    """Predict the methods of one model; nothing where it is too short for a cost curve."""
    model = cells[0].model
    try:
        cost = cost_curve(model.target, fresh=True)  # seconds before what it is compared with
    except InputError:
        return {}
    prompts = model.encode(test.prompts[:MOST_SAMPLES])
    outputs = [o[: max_new_tokens - 1] for o in model.encode(test.outputs[:MOST_SAMPLES])]
    result = {}
    for cell in cells:
        if cell.method.name not in REPLAYABLE:
            continue
        # Budget and drafter begin as before the run: they know nothing of these outputs.
        fresh = replace(cell, policy=Adaptive(cost) if cell.policy else None)
        fresh.forget()
        result[cell.method.label] = predict(
            fresh.drafter, prompts, outputs, model.end_ids[0], cell.method.budget, cost
        )
    return result


def _compared(
    cell: Cell,
    found: Prediction,
    first: Prediction,
    seen: dict[str, Any],
    seen_first: dict[str, Any],
) -> dict[str, Any]:
    speedup = first.ms_per_sample / found.ms_per_sample
    measured = record.speedup(seen, seen_first)
    return {
        "model": cell.model.label,
        "method": cell.method.label,
        **asdict(found),
        "speedup": speedup,
        "measured_speedup": measured,
        "speedup_error": speedup / measured - 1,
        "measured_acceptance_length": seen["acceptance_length"],
        "acceptance_error": found.acceptance_length / seen["acceptance_length"] - 1,
    }


def entropy_and_runtime(
    cells: Sequence[Cell], corpus: Corpus, measured: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """Compare H_2 of the corpus' outputs with runtimes over models that differ in their budget.

    Appendix E of Tsur et al., for the first method that every model ran. None for fewer than two
    different vocabularies.
    """
    models = {cell.model.label: cell.model for cell in cells}
    smallest = min(len(model.tokenizer.vocabulary()) for model in models.values())
    method = cells[0].method.label
    ms = {row["model"]: row["ms_per_sample"] for row in measured if row["method"] == method}
    points: dict[int, Measured] = {}
    for label, model in models.items():
        size = len(model.tokenizer.vocabulary())
        if label in ms and size not in points:
            tokens = model.tokenizer.encode(corpus.outputs).tokens
            h2 = renyi_bits(np.bincount(tokens, minlength=size).astype(np.int64))
            points[size] = Measured(size - smallest, h2, ms[label])
    if len(points) < 2:
        return None
    sequence = sorted(points.values(), key=lambda point: point.budget)
    return {
        "method": method,
        "points": [asdict(point) for point in sequence],
        **asdict(agreement(sequence)),
    }
