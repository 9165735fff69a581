"""``tasc load``: servers under the load of a task's prompts, side by side."""

from typing import TYPE_CHECKING, Any

from ..._command import Command
from ..._console import bounds_text, noted, say, table

if TYPE_CHECKING:
    from tasc.benchmark.load.results import Latency, LoadComparison, LoadResults


def show(result: dict[str, Any]) -> None:
    """Print a table of servers and levels; latencies are median and p99, in milliseconds."""
    from tasc.benchmark.load.results import LoadResults

    found = LoadResults.model_validate(result)
    _cells(found)
    if found.left_out:
        say(f"left out, as there are too few samples: {found.left_out} at a time")
    for pair in found.comparisons:
        say(_pair_line(pair, found))
    for cell in found.cells:
        if cell.client_bound:
            say(
                f"{cell.label}: this client took {cell.client_cpu:.0%} of a core, "
                "its own speed may be what limits the figures"
            )
        for why, times in cell.errors.items():
            say(f"FAILED: {times} of {cell.requests} requests of {cell.label}: {why}")


def _cells(found: "LoadResults") -> None:
    columns = ["endpoint", "at a time", "requests/s", "tokens/s", "TTFT", "p99", "TPOT", "p99"]
    table(
        f"{found.task.source}: {found.task.samples} samples, latencies in ms",
        [*columns, "E2EL", "p99", "equal", *(metric.label for metric in found.metrics.values())],
        [
            [
                cell.endpoint,
                str(cell.concurrency),
                f"{cell.requests_per_second:.1f}",
                f"{cell.output_tokens_per_second:.0f}",
                *_latency(cell.ttft_ms),
                *_latency(cell.tpot_ms),
                *_latency(cell.e2el_ms),
                f"{cell.equal.identical}/{cell.equal.of}",
                *(f"{cell.quality[name]:.3f}" for name in found.metrics),
            ]
            for cell in found.cells
        ],
    )
    say(f"equal: outputs that are, as text, those of {found.cells[0].equal.against}")


def _latency(seen: "Latency | None") -> tuple[str, str]:
    return ("–", "–") if seen is None else (f"{seen.median:.1f}", f"{seen.p99:.1f}")


def _pair_line(pair: "LoadComparison", found: "LoadResults") -> str:
    """Say how many times as fast a server is as the first one, and how its outputs differ."""
    parts = []
    if pair.speed:
        bounds = bounds_text(pair.speed.interval, ".2f")
        parts.append(noted(f"{pair.speed.ratio:.2f}× as fast", bounds))
    if repeats := [ratio for ratio in pair.throughput_by_repeat if ratio is not None]:
        parts.append(f"{min(repeats):.2f}× to {max(repeats):.2f}× the requests/s of a repeat")
    for name, seen in pair.quality.items():
        bounds = bounds_text(seen.interval, "+z.3f") if seen.difference else ""
        parts.append(noted(f"{found.metrics[name].label} {seen.difference:+z.3f}", bounds))
    return f"{pair.endpoint} against {pair.against}, {pair.concurrency} at a time: " + ", ".join(
        parts
    )


COMMAND = Command(
    "load",
    help="Measure running servers with the task's prompts, side by side; writes results.json and "
    "report.html.",
    show=show,
    leaves=(("report", "report.html"),),
)
