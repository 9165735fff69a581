"""``report.html`` of a load test, self-contained and escaped."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tasc.benchmark.load.results import Latency, LoadCell, LoadComparison, LoadResults
from tasc.report.charts import Chart, chart
from tasc.report.html import template

LATENCIES = {
    "TTFT": "time to the first token",
    "TPOT": "time per output token after the first",
    "ITL": "inter-token latency: between pieces of the stream, which may hold several tokens",
    "E2EL": "end-to-end latency: to the last token",
}


def render(results: LoadResults) -> str:
    """Return the page."""
    return template("tasc.benchmark", "load.html").render(
        results=results,
        rows=results.cells,
        headlines=headlines(results),
        metrics=results.metrics,
        latencies=LATENCIES,
        charts=list(_charts(results)),
    )


@dataclass(frozen=True)
class Headline:
    """A server at one level of concurrency, as the page begins.

    Attributes:
        cell: its figures.
        compared: with the first server at that level; None where there is no other server.
    """

    cell: LoadCell
    compared: LoadComparison | None

    @property
    def open(self) -> bool:
        """Whether its speed is not told apart from the first server's."""
        speed = self.compared and self.compared.speed
        low, high = (speed and speed.interval) or (1.0, 1.0)
        return low <= 1 <= high


def headlines(results: LoadResults) -> list[Headline]:
    """Return what the page begins with: servers against the first; of one, its own figures."""
    cells = {(cell.endpoint, cell.concurrency): cell for cell in results.cells}
    compared = [Headline(cells[c.endpoint, c.concurrency], c) for c in results.comparisons]
    return compared or [Headline(cell, None) for cell in results.cells]


def _charts(results: LoadResults) -> Iterator[Chart]:
    """Plot throughput and latency against concurrency, where there are several levels."""
    if len(results.settings.concurrency) < 2:
        return
    figures: dict[str, tuple[str, Callable[[LoadCell], float | None]]] = {
        "Throughput": ("output tokens a second", lambda cell: cell.output_tokens_per_second),
        "Time to the first token": ("ms, median", lambda cell: _median(cell.ttft_ms)),
        "End-to-end latency": ("ms, median", lambda cell: _median(cell.e2el_ms)),
    }
    for title, (y_label, figure) in figures.items():
        lines = {
            endpoint.label: [
                (cell.concurrency, value)
                for cell in results.cells
                if cell.endpoint == endpoint.label and (value := figure(cell)) is not None
            ]
            for endpoint in results.endpoints
        }
        yield chart(title, lines, "concurrency: requests at a time", y_label)


def _median(seen: Latency | None) -> float | None:
    return None if seen is None else seen.median
