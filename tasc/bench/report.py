"""``report.html``: the figures of a bench for a reader, self-contained and escaped."""

from tasc.bench import plots
from tasc.bench.results.bench import BenchResults
from tasc.html import template


def render(results: BenchResults) -> str:
    """Return the page."""
    return template("tasc.bench", "report.html").render(
        results=results,
        rows=results.cells,
        metrics=results.metrics,
        latency=plots.latency(results.cells),
        acceptance=plots.acceptance(results.cells),
        bars=plots.where_time_goes(results.cells),
    )
