"""Every pair of a bench's models, and every cell against another, on the same samples."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tasc.benchmark.metrics import find
from tasc.benchmark.metrics.metric import Counts, Metric, judged_counts
from tasc.benchmark.paired.seeds import name_of
from tasc.benchmark.paired.statistics import CONFIDENCE, RESAMPLES, Bootstrap, mcnemar
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.comparisons import (
    CellComparison,
    CellName,
    McNemar,
    ModelPair,
    QualityDifference,
    SpeedRatio,
)
from tasc.benchmark.results.conditions import Settings

ByMetric = dict[str, Counts]


def pairs(
    cells: Sequence[Cell], references: Sequence[str], settings: Settings
) -> tuple[ModelPair, ...]:
    """Compare each model with those before it, seeds of one model left out.

    Quality is that of each model's first method, as the others are to say the same.
    """
    by_model: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        by_model.setdefault(cell.model, {})[cell.method] = cell
    counts = {
        model: counted(first.texts, references, settings.metrics, settings.delimiter, first.scores)
        for model, own in by_model.items()
        for first in [next(iter(own.values()))]
    }
    bootstrap, speeds = Bootstrap(len(references)), Speeds(len(references), settings.turn)
    return tuple(
        ModelPair(
            model=model,
            against=against,
            quality=qualities(bootstrap, counts[model], counts[against]),
            speed={
                method: speeds.ratio(cell, by_model[against][method])
                for method, cell in by_model[model].items()
                if method in by_model[against]
            },
        )
        for against, model in combinations(by_model, 2)
        if name_of(against) != name_of(model)
    )


def counted(
    texts: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str],
    delimiter: str,
    scores: Sequence[float | None] = (),
) -> ByMetric:
    """Count the samples of a cell for each metric, (N, K), by its N texts or the judge's scores."""
    return {
        name: judged_counts(scores)
        if find(name).judged
        else find(name).count(texts, references, delimiter)
        for name in metrics
    }


def qualities(bootstrap: Bootstrap, own: ByMetric, other: ByMetric) -> dict[str, QualityDifference]:
    """Compare what two systems reach of every metric that was counted."""
    return {name: quality_difference(bootstrap, find(name), own[name], other[name]) for name in own}


def quality_difference(
    bootstrap: Bootstrap, metric: Metric, own: Counts, other: Counts, confidence: float = CONFIDENCE
) -> QualityDifference:
    """Compare what two systems reach of a metric, by their counts (N, K)."""
    difference, interval = bootstrap.difference(metric.value, own, other, confidence)
    test = None
    if metric.zero_one:
        right, others = own[:, 0] > 0, other[:, 0] > 0
        only = int((right & ~others).sum()), int((others & ~right).sum())
        test = McNemar(only_model=only[0], only_against=only[1], p_value=mcnemar(*only))
    return QualityDifference(difference=difference, interval=interval, mcnemar=test)


class Speeds:
    """Speeds of cells against each other.

    Samples of a turn are decoded in the same batches and not independent: turns are resampled.
    """

    def __init__(self, samples: int, turn: int, resamples: int = RESAMPLES) -> None:
        """Draw the resamples; a turn has so many samples."""
        self._turns = np.arange(0, samples, turn)
        self._bootstrap = Bootstrap(len(self._turns), resamples=resamples)

    def ratio(self, cell: Cell, base: Cell, confidence: float = CONFIDENCE) -> SpeedRatio:
        """Say how many times as fast ``cell`` is as ``base``."""
        own, other = (_cost(one, by_token=cell.lossless is None) for one in (cell, base))
        return self.of_costs(own, other, confidence)

    def of_costs(
        self, own: np.ndarray, other: np.ndarray, confidence: float = CONFIDENCE
    ) -> SpeedRatio:
        """Compare milliseconds and work of each sample, (N, 2) each."""
        first, second = (np.add.reduceat(costs, self._turns) for costs in (own, other))
        ratio, interval = self._bootstrap.ratio(first, second, confidence)
        return SpeedRatio(ratio=ratio, interval=interval)


def _cost(cell: Cell, *, by_token: bool) -> np.ndarray:
    """Return milliseconds and work of each sample (N, 2): work is 1, or its tokens."""
    work = [output.tokens if by_token else 1 for output in cell.outputs]
    return np.stack([cell.sample_ms, np.array(work, float)], axis=-1)


def comparisons(cells: Sequence[Cell], settings: Settings) -> tuple[CellComparison, ...]:
    """Compare every cell with the first model's first method, and with its own model's."""
    overall, speeds = cells[0], Speeds(cells[0].samples, settings.turn)
    own: dict[str, Cell] = {}
    result = []
    for cell in cells:
        base = own.setdefault(cell.model, cell)
        bases = [base] if base is overall else [base, overall]
        result += [_compare(speeds, cell, other) for other in bases if other is not cell]
    return tuple(result)


def _compare(speeds: Speeds, cell: Cell, base: Cell) -> CellComparison:
    by_repeat = zip(cell.ms_per_sample_by_repeat, base.ms_per_sample_by_repeat, strict=True)
    return CellComparison(
        model=cell.model,
        method=cell.method,
        against=CellName(model=base.model, method=base.method),
        speedup=cell.speedup(base),
        speedup_interval=speeds.ratio(cell, base).interval,
        speedup_median_of_samples=float(np.median(base.sample_ms / cell.sample_ms)),
        speedup_by_repeat=tuple(b / a for a, b in by_repeat),
        fewer_steps=base.decoding_steps / cell.decoding_steps,
        quality_change={k: value - base.quality[k] for k, value in cell.quality.items()},
    )
