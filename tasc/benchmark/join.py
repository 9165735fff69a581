"""``tasc report``: several benches on one page, with tests between runs of the same samples."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tasc.benchmark.pages.write import write_pages
from tasc.benchmark.paired.compare import differences, read_results
from tasc.benchmark.paired.pairs import pairs
from tasc.benchmark.results.bench import BenchResults, JoinedResults, Run
from tasc.benchmark.results.comparisons import ModelPair
from tasc.benchmark.results.warnings import warnings
from tasc.errors import InputError
from tasc.files.artefact import Step, check_kept, create, fingerprint
from tasc.options.command import CommandOptions
from tasc.options.fields import Shell
from tasc.options.references import parse_path


class ReportOptions(CommandOptions):
    """Options of ``tasc report``."""

    command = "report"

    runs: Annotated[tuple[str, ...], Shell(argument=True)] = Field(
        min_length=1,
        description="Folders of tasc bench, or their results.json, as DIR or LABEL=DIR. A single "
        "one gets its own page again.",
    )


def join_results(options: ReportOptions) -> JoinedResults | BenchResults:
    """Read benches and compare their models; return a single bench as it is.

    Raises InputError if a file is missing or not a result of a bench, or two runs share a name.
    """
    benches = _read(options.runs)
    if len(benches) == 1:
        return next(iter(benches.values()))
    runs = [
        Run(label=name, bench=bench, warnings=warnings(bench)) for name, bench in benches.items()
    ]
    tested, notes = list[ModelPair](), list[str]()
    for old, new in combinations(runs, 2):
        names = f"{old.label} and {new.label}"
        if [s.id for s in old.bench.samples] != [s.id for s in new.bench.samples]:
            notes.append(f"{names}: the samples differ, so nothing is tested between them")
            continue
        reasons = list(differences(old.bench, new.bench))
        notes += [f"{names}: {reason}" for reason in reasons]
        tested += _test_between(old, new, speeds=not reasons)
    return JoinedResults(runs=tuple(runs), pairs=tuple(tested), notes=tuple(notes))


def _read(runs: Sequence[str]) -> dict[str, BenchResults]:
    benches = dict[str, BenchResults]()
    for text in runs:
        label, path = parse_path(text)
        name = label or Path(path).resolve().name
        if name in benches:
            raise InputError(f"two runs are named {name}: name them with LABEL=DIR")
        benches[name] = read_results(path)
    return benches


def write_report(
    options: ReportOptions, output: Path, *, force: bool = False
) -> JoinedResults | BenchResults:
    """Write the page of ``join_results`` into the folder ``output``."""
    results = join_results(options)
    read = [Path(parse_path(text)[1]) for text in options.runs]
    check_kept(output, read)
    inputs = {"runs": " ".join(map(fingerprint, read))}
    step = Step(options.command, options.model_dump(mode="json"), inputs)
    with create(output, step, force=force) as workspace:
        write_pages(results, workspace.folder)
    return results


def _test_between(old: Run, new: Run, *, speeds: bool) -> list[ModelPair]:
    """Compare each model of one run with each of another one, in speed only if ``speeds``."""
    metrics = [m for m in new.bench.settings.metrics if m in old.bench.settings.metrics]
    settings = new.bench.settings.model_copy(update={"metrics": tuple(metrics)})
    cells, owner = [], dict[str, str]()
    for run in (old, new):
        for cell in run.bench.cells:
            name = f"{run.label} · {cell.model}"
            owner[name] = run.label
            cells.append(cell.model_copy(update={"model": name}))
    return [
        pair if speeds else pair.model_copy(update={"speed": {}})
        for pair in pairs(cells, [s.reference for s in new.bench.samples], settings)
        if owner[pair.model] != owner[pair.against]
    ]
