"""Every pair of a bench's models, and every cell against another, on the same samples."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tasc.bench.metrics import METRICS
from tasc.bench.metrics.metric import Metric
from tasc.bench.paired.seeds import name_of
from tasc.bench.paired.statistics import CONFIDENCE, Bootstrap, mcnemar
from tasc.bench.results.cells import Cell
from tasc.bench.results.comparisons import (
    CellComparison,
    CellName,
    McNemar,
    ModelPair,
    QualityDifference,
    SpeedRatio,
)

Counts = dict[str, np.ndarray]


def pairs(
    cells: Sequence[Cell], references: Sequence[str], metrics: Sequence[str], delimiter: str
) -> tuple[ModelPair, ...]:
    """Compare each model with those before it, seeds of one model left out.

    Quality is that of each model's first method, as the others are to say the same.
    """
    by_model: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        by_model.setdefault(cell.model, {})[cell.method] = cell
    counts = {
        model: counted(next(iter(own.values())), references, metrics, delimiter)
        for model, own in by_model.items()
    }
    bootstrap = Bootstrap(len(references))
    return tuple(
        ModelPair(
            model=model,
            against=against,
            quality=_qualities(bootstrap, counts[model], counts[against]),
            speed={
                method: speed_ratio(bootstrap, cell, by_model[against][method])
                for method, cell in by_model[model].items()
                if method in by_model[against]
            },
        )
        for against, model in combinations(by_model, 2)
        if name_of(against) != name_of(model)
    )


def counted(
    cell: Cell, references: Sequence[str], metrics: Sequence[str], delimiter: str
) -> Counts:
    """Count the samples of a cell for each metric, (N, K)."""
    texts = [output.text for output in cell.outputs]
    return {name: METRICS[name].count(texts, references, delimiter) for name in metrics}


def _qualities(bootstrap: Bootstrap, own: Counts, other: Counts) -> dict[str, QualityDifference]:
    return {
        name: quality_difference(bootstrap, METRICS[name], own[name], other[name]) for name in own
    }


def quality_difference(
    bootstrap: Bootstrap,
    metric: Metric,
    own: np.ndarray,
    other: np.ndarray,
    confidence: float = CONFIDENCE,
) -> QualityDifference:
    """Compare what two systems reach of a metric, by their counts (N, K)."""
    difference, interval = bootstrap.difference(metric.value, own, other, confidence)
    test = None
    if metric.zero_one:
        right, others = own[:, 0] > 0, other[:, 0] > 0
        only = int((right & ~others).sum()), int((others & ~right).sum())
        test = McNemar(only_model=only[0], only_against=only[1], p_value=mcnemar(*only))
    return QualityDifference(difference=difference, interval=interval, mcnemar=test)


def speed_ratio(bootstrap: Bootstrap, cell: Cell, base: Cell) -> SpeedRatio:
    """Say how many times as fast ``cell`` is as ``base``."""
    own, other = (cost(one, by_token=cell.lossless is None) for one in (cell, base))
    ratio, interval = bootstrap.ratio(own, other)
    return SpeedRatio(ratio=ratio, interval=interval)


def cost(cell: Cell, *, by_token: bool) -> np.ndarray:
    """Return milliseconds and work of each sample (N, 2): work is a sample, or its tokens."""
    tokens = [output.tokens if by_token else 1 for output in cell.outputs]
    return np.stack([cell.sample_ms, np.array(tokens, float)], axis=-1)


def comparisons(cells: Sequence[Cell]) -> tuple[CellComparison, ...]:
    """Compare every cell with the first model's first method, and with its own model's."""
    overall, bootstrap = cells[0], Bootstrap(cells[0].samples)
    own: dict[str, Cell] = {}
    result = []
    for cell in cells:
        base = own.setdefault(cell.model, cell)
        bases = [base] if base is overall else [base, overall]
        result += [_compare(bootstrap, cell, other) for other in bases if other is not cell]
    return tuple(result)


def _compare(bootstrap: Bootstrap, cell: Cell, base: Cell) -> CellComparison:
    by_repeat = zip(cell.ms_per_sample_by_repeat, base.ms_per_sample_by_repeat, strict=True)
    return CellComparison(
        model=cell.model,
        method=cell.method,
        against=CellName(model=base.model, method=base.method),
        speedup=cell.speedup(base),
        speedup_interval=speed_ratio(bootstrap, cell, base).interval,
        speedup_median_of_samples=float(np.median(base.sample_ms / cell.sample_ms)),
        speedup_by_repeat=tuple(b / a for a, b in by_repeat),
        fewer_steps=base.decoding_steps / cell.decoding_steps,
        quality_change={k: value - base.quality[k] for k, value in cell.quality.items()},
    )
