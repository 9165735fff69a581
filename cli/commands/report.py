"""``tasc report``: join several benches into one page."""

from tasc.benchmark.join import ReportOptions, write_report
from tasc.benchmark.results.bench import JoinedResults
from tasc.benchmark.results.quality import quality_lines
from tasc.benchmark.results.warnings import advice

from .._command import output_folder
from .._console import ms_text, note, print_json, say, say_first, speedup_text, table
from .._derive import RunFlags


def run(options: ReportOptions, flags: RunFlags) -> None:
    """Write the page and print its path."""
    folder = output_folder(flags, "report")
    results = write_report(options, folder, force=flags.force)
    if flags.json:
        print_json(results.to_dict())
        return
    if isinstance(results, JoinedResults):
        _show(results)
    say(f"report: {folder / 'report.html'}")


def _show(results: JoinedResults) -> None:
    columns = ["run", "model", "method", "ms", "speed-up", "predicted", "tokens/step"]
    columns += [metric.label for metric in results.metrics.values()]
    rows = [
        [
            run.label,
            cell.model,
            cell.method,
            ms_text(cell.ms_per_sample),
            f"{speedup:.2f}×",
            "-" if predicted is None else speedup_text(predicted),
            f"{cell.tokens_per_step:.2f}",
            *(f"{cell.quality[m]:.3f}" if m in cell.quality else "-" for m in results.metrics),
        ]
        for run in results.runs
        for cell, speedup, predicted in run.rows()
    ]
    for run in results.runs:
        for line in quality_lines(run.bench):
            say_first(f"{run.label}: {line}")
    optional = ("predicted", "tokens/step", "ms")
    table(f"{len(results.runs)} benches", columns, rows, text_columns=3, optional=optional)
    for line in results.notes:
        say(line)
    for run in results.runs:
        for line in advice(run.bench):
            note(f"{run.label}: {line}")
