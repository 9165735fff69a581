"""Join benches: their cells in one table, and tests across them where the samples are the same."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from tasc.benchmark.pages.write import write_pages
from tasc.benchmark.paired.compare import differences, read_results
from tasc.benchmark.paired.pairs import pairs
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.comparisons import ModelPair
from tasc.benchmark.results.joined import JoinedResults, Run, RunCell
from tasc.benchmark.results.warnings import warnings
from tasc.errors import InputError
from tasc.files.artefact import Step, check_kept, create, fingerprint
from tasc.options.command import CommandOptions
from tasc.options.fields import Shell
from tasc.options.references import parse_path

Named = dict[str, BenchResults]


class ReportOptions(CommandOptions):
    """Options of ``tasc report``."""

    command = "report"
    flags: ClassVar = ("output", "force", "json")

    runs: Annotated[tuple[str, ...], Shell(argument=True)] = Field(
        min_length=1,
        description="Folders of tasc bench, or their results.json, as DIR or LABEL=DIR; of one its "
        "own page is made anew.",
    )


def join_results(options: ReportOptions) -> JoinedResults | BenchResults:
    """Put benches side by side; of one folder return the bench itself.

    Raises:
        InputError: a file is not there or no result of a bench, or two have one name.
    """
    named: Named = {}
    for text in options.runs:
        label, path = parse_path(text)
        name = label or Path(path).resolve().name
        if name in named:
            raise InputError(f"two runs are named {name}: tell them apart with LABEL=DIR")
        named[name] = read_results(path)
    if len(named) == 1:
        return next(iter(named.values()))
    found, notes = _across(named)
    return JoinedResults(
        runs=tuple(
            Run(
                label=name,
                task=bench.task,
                settings=bench.settings,
                started=bench.started,
                environment=bench.environment,
                warnings=warnings(bench),
            )
            for name, bench in named.items()
        ),
        cells=tuple(
            RunCell.of(name, cell, bench.cells[0], bench.prediction.cells)
            for name, bench in named.items()
            for cell in bench.cells
        ),
        pairs=tuple(found),
        notes=tuple(notes),
    )


def write_report(
    options: ReportOptions, output: Path, *, force: bool = False
) -> JoinedResults | BenchResults:
    """Write the page of ``join_results`` into ``output``, a folder."""
    found = join_results(options)
    read = [Path(parse_path(text)[1]) for text in options.runs]
    check_kept(output, read)
    inputs = {"runs": " ".join(map(fingerprint, read))}
    step = Step(options.command, options.model_dump(mode="json"), inputs)
    with create(output, step, force=force) as workspace:
        write_pages(found, workspace.folder)
    return found


def _across(named: Named) -> tuple[list[ModelPair], list[str]]:
    """Compare models of different runs, and tell what could not be."""
    found, notes = list[ModelPair](), list[str]()
    for (a, old), (b, new) in combinations(named.items(), 2):
        if [s.id for s in old.samples] != [s.id for s in new.samples]:
            notes.append(f"{a} and {b}: other samples, so nothing is tested between them")
            continue
        why = list(differences(old, new))
        notes += [f"{a} and {b}: {reason}" for reason in why]
        found += _between((a, old), (b, new), speeds=not why)
    return found, notes


def _between(
    old: tuple[str, BenchResults], new: tuple[str, BenchResults], *, speeds: bool
) -> Iterator[ModelPair]:
    """Compare each model of one run with each of another; their speeds with ``speeds``."""
    shared = [m for m in new[1].settings.metrics if m in old[1].settings.metrics]
    settings = new[1].settings.model_copy(update={"metrics": tuple(shared)})
    cells = [
        cell.model_copy(update={"model": f"{run} · {cell.model}"})
        for run, bench in (old, new)
        for cell in bench.cells
    ]
    owner = {f"{run} · {cell.model}": run for run, bench in (old, new) for cell in bench.cells}
    for pair in pairs(cells, [s.reference for s in new[1].samples], settings):
        if owner[pair.model] != owner[pair.against]:
            yield pair if speeds else pair.model_copy(update={"speed": {}})
