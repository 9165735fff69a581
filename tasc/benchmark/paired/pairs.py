"""Compare the models and the cells of a bench on the same samples."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tasc.benchmark.metrics import find
from tasc.benchmark.metrics.metric import Counts, counts_of
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
    """Compare each model with those before it, except seeds of one model.

    The quality is that of each model's first method: the others write the same outputs.
    """
    by_model: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        by_model.setdefault(cell.model, {})[cell.method] = cell
    counts = {
        model: counted(
            next(iter(by_method.values())), references, settings.metrics, settings.delimiter
        )
        for model, by_method in by_model.items()
    }
    bootstrap = Bootstrap(len(references))
    speeds = Speeds(len(references), settings.turn)
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
    cell: Cell, references: Sequence[str], metrics: Sequence[str], delimiter: str
) -> ByMetric:
    """Count the samples of a cell for each metric, (N, K), by its texts or the judge's scores."""
    return {
        name: counts_of(cell.scores)
        if find(name).judged
        else find(name).count(cell.texts, references, delimiter)
        for name in metrics
    }


def qualities(
    bootstrap: Bootstrap,
    own_counts: ByMetric,
    other_counts: ByMetric,
    confidence: float = CONFIDENCE,
) -> dict[str, QualityDifference]:
    """Compare two systems in every metric, by their counts (N, K)."""
    differences = dict[str, QualityDifference]()
    for name, counts in own_counts.items():
        metric = find(name)
        others = other_counts[name]
        test = None
        difference, interval = bootstrap.difference(metric.value, counts, others, confidence)
        if metric.zero_one:
            right = counts[:, 0] > 0
            right_there = others[:, 0] > 0
            only = int((right & ~right_there).sum()), int((right_there & ~right).sum())
            test = McNemar(only_model=only[0], only_against=only[1], p_value=mcnemar(*only))
        differences[name] = QualityDifference(
            difference=difference, interval=interval, mcnemar=test
        )
    return differences


class Speeds:
    """Compare the speeds of cells.

    The samples of a turn share their batches and are not independent, so turns are resampled.
    """

    def __init__(self, samples: int, turn: int, resamples: int = RESAMPLES) -> None:
        self._turns = np.arange(0, samples, turn)
        self._bootstrap = Bootstrap(len(self._turns), resamples=resamples)

    def ratio(self, cell: Cell, base: Cell, confidence: float = CONFIDENCE) -> SpeedRatio:
        """Return the speed of ``cell`` over that of ``base``, per token if outputs differ."""

        def costs(side: Cell) -> np.ndarray:
            work = [1.0 if cell.lossless else output.tokens for output in side.outputs]
            return np.stack([side.sample_ms, work], axis=-1)

        return self.of_costs(costs(cell), costs(base), confidence)

    def of_costs(
        self, own_costs: np.ndarray, other_costs: np.ndarray, confidence: float = CONFIDENCE
    ) -> SpeedRatio:
        """Compare the milliseconds and the work of each sample, (N, 2) each."""
        first, second = (np.add.reduceat(costs, self._turns) for costs in (own_costs, other_costs))
        ratio, interval = self._bootstrap.ratio(first, second, confidence)
        return SpeedRatio(ratio=ratio, interval=interval)


def comparisons(cells: Sequence[Cell], settings: Settings) -> tuple[CellComparison, ...]:
    """Compare every cell with the first model's first method, and with its own model's."""
    overall = cells[0]
    speeds = Speeds(cells[0].samples, settings.turn)
    first_cells: dict[str, Cell] = {}
    compared = []
    for cell in cells:
        base = first_cells.setdefault(cell.model, cell)
        bases = [base] if base is overall else [base, overall]
        compared += [(cell, other) for other in bases if other is not cell]
    return tuple(
        CellComparison(
            model=cell.model,
            method=cell.method,
            against=CellName(model=other.model, method=other.method),
            speedup=cell.speedup(other),
            speedup_interval=speeds.ratio(cell, other).interval,
            fewer_steps=other.decoding_steps / cell.decoding_steps,
        )
        for cell, other in compared
    )
