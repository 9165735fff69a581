"""``tasc load``: compare the outputs and the speed of running servers."""

from collections.abc import Callable

from tasc.benchmark.results.load import LoadCell, LoadResults

from .._console import bounds_text, noted, say, table_of

_COLUMNS: dict[str, Callable[[LoadCell], str]] = {
    "endpoint": lambda cell: cell.endpoint,
    "requests/s": lambda cell: f"{cell.requests_per_second:.1f}",
    "ms/sample": lambda cell: "–" if cell.ms_per_sample is None else f"{cell.ms_per_sample:.1f}",
    "equal": lambda cell: f"{cell.equal.identical}/{cell.equal.of}",
}


def show(results: LoadResults) -> None:
    """Print a table of servers, comparisons with the first server, and failed requests."""
    task = results.task
    requests = f"{results.settings.concurrency} requests in flight"
    table_of(f"{task.source}: {task.samples} samples, {requests}", results.cells, _COLUMNS)
    say(f"Equal: outputs with the same text as {results.cells[0].equal.against}")
    for pair in results.comparisons:
        if pair.speed:
            bounds = bounds_text(pair.speed.interval, ".2f")
            figure = noted(f"{pair.speed.ratio:.2f}× as fast", bounds)
            say(f"{pair.endpoint} against {pair.against}: {figure}")
    for cell in results.cells:
        for why, times in cell.errors.items():
            say(f"FAILED: {times} of {cell.requests} requests to {cell.endpoint}: {why}")
