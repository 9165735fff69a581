"""``tasc compare``: compare two benches of the same samples; exit with 1 for a regression."""

from collections.abc import Callable

import typer

from tasc.benchmark.metrics import find
from tasc.benchmark.paired.compare import CompareOptions, compare_results
from tasc.benchmark.results.comparisons import Change, ResultsComparison

from .._console import interval_text, note, print_json, say, table_of
from .._derive import RunFlags

_FIGURES = {"speed": "speed, ms", "steps": "steps"}
_COLUMNS: dict[str, Callable[[Change], str]] = {
    "model": lambda change: change.model,
    "method": lambda change: change.method,
    "figure": lambda change: _FIGURES.get(change.what) or find(change.what).label,
    "old": lambda change: f"{change.old:.4g}",
    "new": lambda change: f"{change.new:.4g}",
    "change": lambda change: f"{change.change:{_form(change)}}",
    "interval": lambda change: interval_text(change.interval, _form(change)),
    "": lambda change: "" if change.verdict == "within the noise" else change.verdict,
}


def run(options: CompareOptions, flags: RunFlags) -> None:
    """Compare two benches and print the changes."""
    comparison = compare_results(options)
    if flags.json:
        print_json(comparison.to_dict())
    else:
        _show(comparison)
    if comparison.regressions:
        raise typer.Exit(1)


def _show(comparison: ResultsComparison) -> None:
    title = f"{comparison.old} and {comparison.new}: {comparison.samples:,} samples"
    table_of(title, comparison.changes, _COLUMNS, text_columns=3)
    for line in comparison.notes:
        note(line)
    worse = len(comparison.regressions)
    say(f"Worse beyond noise: {worse} of {len(comparison.changes)} figures")
    say(
        f"The confidence level of each interval is {comparison.confidence:.2%}, so that of all "
        f"together is 95 %. A speed counts as worse only beyond {comparison.tolerance:.0%}."
    )


def _form(change: Change) -> str:
    return ".3f" if change.what in ("speed", "steps") else "+z.3f"
