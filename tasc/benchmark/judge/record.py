"""From judgements to figures: scores of each model, and of each pair on the same samples."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from tasc.benchmark.judge.results import JudgedSample, JudgePair, ModelScores
from tasc.benchmark.judge.rubric import SCORES
from tasc.benchmark.metrics.metric import share
from tasc.benchmark.paired.seeds import name_of
from tasc.benchmark.paired.statistics import Bootstrap
from tasc.benchmark.results.cells import Cell


def figures(cells: Sequence[Cell], samples: Sequence[JudgedSample]) -> dict[str, Any]:
    """Return what ``JudgeResults`` tells of all samples, by field."""
    complete = [sample for sample in samples if sample.complete]
    scores = {
        cell.model: np.array(
            [[one.score(cell.model) for one in sample.judgements] for sample in complete], float
        ).reshape(-1, 2)
        for cell in cells
    }
    judgements = [one for sample in samples for one in sample.judgements]
    without = [one for one in judgements if not one.scores]
    failed = sum(bool(one.error) for one in without)
    return {
        "complete": len(complete),
        "asked": len(judgements),
        "unparsed": len(without) - failed,
        "failed": failed,
        "models": tuple(_model(cell, scores[cell.model]) for cell in cells),
        "pairs": _pairs(scores) if complete else (),
        "by_position": _by_position(complete) if complete else None,
    }


def _model(cell: Cell, scores: np.ndarray) -> ModelScores:
    """Describe the scores of a model, (N, 2): of N samples in both orders."""
    means, some = scores.mean(1), len(scores) > 0
    return ModelScores(
        model=cell.model,
        method=cell.method,
        mean=float(means.mean()) if some else None,
        sd=float(means.std(ddof=1)) if len(scores) > 1 else None,
        shares=tuple(float((scores == score).mean()) for score in SCORES) if some else None,
        same_in_both_orders=float((scores[:, 0] == scores[:, 1]).mean()) if some else None,
    )


def _pairs(scores: dict[str, np.ndarray]) -> tuple[JudgePair, ...]:
    """Compare each model with those before it, seeds of one model left out."""
    bootstrap = Bootstrap(len(next(iter(scores.values()))))
    return tuple(
        _pair(bootstrap, (model, scores[model]), (against, scores[against]))
        for against, model in combinations(scores, 2)
        if name_of(against) != name_of(model)
    )


def _pair(
    bootstrap: Bootstrap, own: tuple[str, np.ndarray], other: tuple[str, np.ndarray]
) -> JudgePair:
    """Compare the scores (N, 2) of two models."""
    counts, others = (
        np.stack([scores.mean(1), np.ones(len(scores))], axis=-1) for _, scores in (own, other)
    )
    difference, interval = bootstrap.difference(share, counts, others)
    preferred = np.sign(own[1] - other[1])
    overall = np.sign((own[1] - other[1]).sum(1))
    return JudgePair(
        model=own[0],
        against=other[0],
        difference=difference,
        interval=interval,
        better=int((overall > 0).sum()),
        worse=int((overall < 0).sum()),
        equal=int((overall == 0).sum()),
        same_in_both_orders=float((preferred[:, 0] == preferred[:, 1]).mean()),
    )


def _by_position(samples: Sequence[JudgedSample]) -> tuple[float, ...]:
    scores = [one.scores for sample in samples for one in sample.judgements]
    return tuple(np.array(scores, float).mean(0).tolist())
