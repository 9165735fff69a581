"""Compare models over several seeds, which are named ``NAME#1``, ``NAME#2``, …

A paired test of two models says nothing about other seeds. Here the trainings are the samples, and
the interval is Welch's t interval of the difference of their means.
"""

import re
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.comparisons import Seeds, SeedsDifference, SeedsPair, Spread
from tasc.report.record import Interval


def name_of(label: str) -> str:
    """Return the name that the seeds of a model share."""
    return re.sub(r"#\w+$", "", label)


def seeds(cells: Sequence[Cell]) -> tuple[Seeds, ...]:
    """Summarise each method of each model with several seeds."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((name_of(cell.model), cell.method), []).append(cell)
    return tuple(_summary(group, cells[0]) for group in groups.values() if len(group) > 1)


def _summary(group: Sequence[Cell], base: Cell) -> Seeds:
    metrics = group[0].quality
    return Seeds(
        model=name_of(group[0].model),
        method=group[0].method,
        models=tuple(cell.model for cell in group),
        ms_per_sample=_spread([cell.ms_per_sample for cell in group]),
        decoding_steps_per_output=_spread([cell.decoding_steps_per_output for cell in group]),
        speedup=_spread([cell.speedup(base) for cell in group]),
        quality={name: _spread([cell.quality[name] for cell in group]) for name in metrics},
    )


def _spread(values: Sequence[float]) -> Spread:
    return Spread(
        mean=float(np.mean(values)), sd=float(np.std(values, ddof=1)), values=tuple(values)
    )


def seeds_pairs(rows: Sequence[Seeds]) -> tuple[SeedsPair, ...]:
    """Compare each model with several seeds with those before it, by its first method."""
    first: dict[str, Seeds] = {}
    for row in rows:
        first.setdefault(row.model, row)
    pairs = []
    for earlier, later in combinations(first.values(), 2):
        quality = {name: _difference(later, earlier, name) for name in later.quality}
        pairs.append(SeedsPair(model=later.model, against=earlier.model, quality=quality))
    return tuple(pairs)


def _difference(later: Seeds, earlier: Seeds, metric: str) -> SeedsDifference:
    spread, against = later.quality[metric], earlier.quality[metric]
    interval = welch(spread.values, against.values)
    return SeedsDifference(difference=spread.mean - against.mean, interval=interval)


def welch(values: Sequence[float], others: Sequence[float]) -> Interval:
    """Return the 95 % interval of the difference of two means (Welch 1947).

    None if neither side varies.
    """
    from scipy.stats import ttest_ind

    if len({*values}) == len({*others}) == 1:
        return None
    interval = ttest_ind(values, others, equal_var=False).confidence_interval()
    return float(interval.low), float(interval.high)
