"""``report.html`` and ``runs.csv`` of several benches. The page is self-contained and escaped."""

from collections.abc import Iterator
from dataclasses import dataclass

from tasc.benchmark.pages.samples import all_wrong_outputs
from tasc.benchmark.results.bench import JoinedResults, Run
from tasc.benchmark.results.quality import Concern, concern
from tasc.report.html import template
from tasc.report.sheet import as_csv as sheet

_COLUMNS = (
    *("run", "model", "method", "samples", "ms per sample", "tokens per second", "speed-up"),
    *("predicted speed-up", "predicted from", "predicted to", "tokens per step", "lossless"),
)


def render(results: JoinedResults) -> str:
    """Return the page."""
    return template("tasc.benchmark", "runs.html").render(
        results=results,
        metrics=results.metrics,
        cards=[Card(run, concern(run.bench, run.fastest.model)) for run in results.runs],
        wrong={run.label: all_wrong_outputs(run.bench) for run in results.runs},
    )


@dataclass(frozen=True)
class Card:
    """A run at the top of the page."""

    run: Run
    concern: Concern | None  # why the quality of its model comes before its speed


def as_csv(results: JoinedResults) -> str:
    """Return one line per cell; figures that a run lacks are empty."""
    return sheet((*_COLUMNS, *results.metrics), _lines(results))


def _lines(results: JoinedResults) -> Iterator[list[object]]:
    for run in results.runs:
        for cell, speedup, predicted in run.rows():
            bounds = (predicted and predicted.speedup_interval) or ("", "")
            same = None if cell.chooses else cell.lossless
            yield [
                *(run.label, cell.model, cell.method, cell.samples, cell.ms_per_sample),
                *(cell.tokens_per_second, speedup),
                *("" if predicted is None else predicted.speedup, *bounds),
                *(cell.tokens_per_step, "" if same is None else same.identical),
                *(cell.quality.get(name, "") for name in results.metrics),
            ]
