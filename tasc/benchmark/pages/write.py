"""The files for readers beside a report's JSON: its HTML page, and its tables as CSV."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasc.benchmark.pages import analysis, bench, runs, samples
from tasc.benchmark.results.analysis import AnalysisResults
from tasc.benchmark.results.bench import BenchResults, JoinedResults
from tasc.report.record import Report

_PAGES: dict[type[Report], dict[str, Callable[[Any], str]]] = {
    AnalysisResults: {"analysis.html": analysis.render},
    BenchResults: {"report.html": bench.render, "samples.csv": samples.as_csv},
    JoinedResults: {"report.html": runs.render, "runs.csv": runs.as_csv},
}


def write_pages(report: Report, folder: Path) -> None:
    """Write the pages of a report into ``folder``; none where its class has none."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, render in _PAGES.get(type(report), {}).items():
        (folder / name).write_text(render(report), encoding="utf-8", newline="")
