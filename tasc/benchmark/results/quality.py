"""Quality before speed: the reasons for which the quality of a model comes before its speed-up."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tasc.benchmark.metrics.metric import Metric
from tasc.benchmark.results.bench import BenchResults, QualityChange
from tasc.benchmark.results.cells import Cell

_ALMOST_NONE = 0.02  # largest value of a metric by which almost no output is right
_HALF = 1 / 2  # share of another quality that is far below it
_GAP = 0.05  # smallest difference to a quality that is far above


@dataclass(frozen=True)
class Concern:
    """A quality that comes before the speed-up of its model."""

    figure: str  # the value of a metric, or its change from the first model's
    metric: Metric
    reasons: tuple[str, ...]  # predicates of the model, such as "loses quality: …"
    useless: bool  # whether almost no output is right, or half of the quality is lost

    @property
    def text(self) -> str:
        return "; it ".join(self.reasons)


def concern(results: BenchResults, model: str) -> Concern | None:
    """Return why the quality of a model comes before its speed-up; None if it does not.

    Almost no output is right, a metric is significantly worse than the first model's, an untuned
    model is better, or the most frequent label is right as often. Metrics that count nothing in the
    references say nothing of a model.
    """
    losses = [change for change in results.quality_changes(model) if change.is_loss]
    reasons = ["loses quality: " + ", ".join(map(_loss, losses))] if losses else []
    blind = blind_metrics(results)
    telling = {name: each for name, each in results.metrics.items() if name not in blind}
    primary = next(iter(telling.items()), None)
    if primary is None:
        return None
    name, metric = primary
    cell = results.by_model[model][0]
    none = cell.quality[name] <= _ALMOST_NONE
    if none:
        reasons.insert(0, f"has almost no output right: {_figures(cell, telling)}")
    reasons += _below_untuned(results, cell, name, metric)
    reasons += _below_majority(results, cell, name, metric)
    if not reasons:
        return None
    figure = f"{cell.quality[name]:.3f}"
    if losses and not none:
        metric, figure = losses[0].metric, f"{losses[0].old:.3f} → {losses[0].new:.3f}"
    halved = any(change.new <= _HALF * change.old for change in losses)
    return Concern(figure, metric, tuple(reasons), none or halved)


def quality_lines(results: BenchResults) -> tuple[str, ...]:
    """Return a line for each model whose quality comes before its speed-up.

    The others are compared with the first model. It has a line only if it has a speed-up itself, or
    if it is the only one. A method that chooses among labels has a quality of its own.
    """
    first, lines = results.cells[0], list[str]()
    for model, cells in results.by_model.items():
        problem = concern(results, model)
        alike = [cell for cell in cells if cell.chooses == cells[0].chooses]
        speedups = [cell.speedup(first) for cell in alike if cell is not first]
        if problem is None or (len(cells) == 1 and cells[0] is first and len(results.by_model) > 1):
            continue
        line = f"{model} {problem.text}"
        if speedups and problem.useless:
            line += f", so its speed-up of {max(speedups):.2f}× means nothing"
        elif speedups:
            line += f"; its speed-up is {max(speedups):.2f}×"
        name = next(name for name, each in results.metrics.items() if each == problem.metric)
        for cell in cells:
            if cell not in alike:
                line += f"; with {cell.method}, its {problem.metric.label} is "
                line += f"{cell.quality[name]:.3f}"
        lines.append(line)
    return tuple(lines)


def blind_metrics(results: BenchResults) -> dict[str, Metric]:
    """Return the metrics by which even the references have 0, since they lack the needed form."""
    references = [sample.reference for sample in results.samples]
    return {
        name: metric
        for name, metric in results.metrics.items()
        if metric.needs
        and not any(cell.quality[name] for cell in results.cells)
        and not metric.score(references, references, results.settings.delimiter)
    }


def _figures(cell: Cell, metrics: Mapping[str, Metric]) -> str:
    return ", ".join(f"{each.label} {cell.quality[name]:.3f}" for name, each in metrics.items())


def _loss(change: QualityChange) -> str:
    p = "" if change.p_value is None else f", p = {change.p_value:.2g}"
    return f"{change.metric.label} {change.old:.3f} → {change.new:.3f}, a significant loss{p}"


def _below_untuned(results: BenchResults, cell: Cell, name: str, metric: Metric) -> Iterator[str]:
    """Compare a trained model with each untuned one: is it significantly, or far, below it?

    A significant loss from the first model is reported as such.
    """
    trained = results.task.trained
    first = results.cells[0].model
    lost = {first} if _is_below(results, cell.model, first, name) else set()
    for other, cells in results.by_model.items():
        if cell.model in trained and other not in {*trained, *lost}:
            value, theirs = cell.quality[name], cells[0].quality[name]
            far = theirs - value >= _GAP and value <= _HALF * theirs
            if far or _is_below(results, cell.model, other, name):
                yield (
                    f"is worse than the untuned {other}: {metric.label} {value:.3f} against "
                    f"{theirs:.3f}"
                )


def _is_below(results: BenchResults, model: str, other: str, name: str) -> bool:
    """Whether a model is significantly below another, whichever of them comes first."""
    tests = {(pair.model, pair.against): pair.quality for pair in results.pairs}
    as_later = tests.get((model, other), {}).get(name)
    as_earlier = tests.get((other, model), {}).get(name)
    return bool(as_later and as_later.is_loss) or bool(as_earlier and as_earlier.is_gain)


def _below_majority(results: BenchResults, cell: Cell, name: str, metric: Metric) -> Iterator[str]:
    majority = results.majority
    if majority is None or name not in majority.quality:
        return
    value, always = cell.quality[name], majority.quality[name]
    if value <= always < 1:
        yield (
            f"is no better than always answering {majority.shown}: {metric.label} {value:.3f} "
            f"against {always:.3f}"
        )
