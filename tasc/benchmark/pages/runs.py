"""``report.html`` of several benches, self-contained and escaped, and ``runs.csv``."""

from collections.abc import Iterator
from dataclasses import dataclass

from tasc.benchmark.results.joined import JoinedResults, Run, RunCell
from tasc.report.html import template
from tasc.report.sheet import as_csv as sheet

_COLUMNS = (
    *("run", "model", "method", "samples", "ms a sample", "tokens a second", "speed-up"),
    *("predicted speed-up", "predicted from", "predicted to", "tokens a step", "lossless"),
)


def render(results: JoinedResults) -> str:
    """Return the page."""
    return template("tasc.benchmark", "runs.html").render(
        results=results,
        rows=results.cells,
        headlines=headlines(results),
        metrics=results.metrics,
    )


@dataclass(frozen=True)
class Headline:
    """A run, and the fastest of its first model's cells: the model that its speeds are against.

    Attributes:
        run: which.
        cell: the fastest but the first, against which it is.
        other: whether there is another than the first.
    """

    run: Run
    cell: RunCell
    other: bool


def headlines(results: JoinedResults) -> list[Headline]:
    """Return what the page begins with, one a run."""
    found = []
    for run in results.runs:
        cells = [cell for cell in results.cells if cell.run == run.label]
        others = [cell for cell in cells[1:] if cell.model == cells[0].model]
        fastest = max(others or cells[:1], key=lambda cell: cell.speedup)
        found.append(Headline(run, fastest, other=bool(others)))
    return found


def as_csv(results: JoinedResults) -> str:
    """Return the figures of every cell, a line each; empty where a run has none."""
    metrics = results.metrics
    return sheet((*_COLUMNS, *metrics), _lines(results, list(metrics)))


def _lines(results: JoinedResults, metrics: list[str]) -> Iterator[list[object]]:
    for cell in results.cells:
        predicted = cell.predicted
        bounds = (predicted and predicted.speedup_interval) or ("", "")
        yield [
            *(cell.run, cell.model, cell.method, cell.samples, cell.ms_per_sample),
            *(cell.tokens_per_second, cell.speedup),
            *("" if predicted is None else predicted.speedup, *bounds),
            *(cell.tokens_per_step, "" if cell.identical is None else cell.identical),
            *(cell.quality.get(name, "") for name in metrics),
        ]
