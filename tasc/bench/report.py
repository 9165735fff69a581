"""``report.html``: the figures of a bench for a reader, self-contained and escaped."""

from collections.abc import Sequence
from typing import Any

from tasc.bench import plots
from tasc.bench.record import speedup
from tasc.html import template


def render(results: dict[str, Any], examples: Sequence[dict[str, Any]]) -> str:
    """Return the page for ``results`` (as in results.json) and a few decoded examples."""
    rows = results["cells"]
    return template("tasc.bench", "report.html").render(
        results=results,
        rows=rows,
        comparisons={(c["model"], c["method"]): c for c in results["comparisons"]},
        metrics=list(rows[0]["quality"]),
        examples=examples,
        latency=plots.latency(rows),
        acceptance=plots.acceptance(rows),
        speedup=speedup,
        bars=plots.where_time_goes(rows),
    )
