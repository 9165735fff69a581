"""``tasc report``: several benches on one page, with tests between runs of the same samples."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tasc.benchmark.pages.write import write_pages
from tasc.benchmark.paired.compare import differences, on_same_samples, read_results, shared_metrics
from tasc.benchmark.paired.pairs import pairs
from tasc.benchmark.paired.prompts import prompt_notes
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
        try:
            first, second = on_same_samples(old.bench, new.bench)
        except InputError:
            notes.append(f"{names}: the samples differ, so nothing is tested between them")
            continue
        reasons = list(differences(first, second))
        notes += [f"{names}: {reason}" for reason in (*prompt_notes(first, second), *reasons)]
        both = {old.label: first, new.label: second}
        tested += _test_between(both, speeds=not reasons)
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


def _test_between(runs: dict[str, BenchResults], *, speeds: bool) -> list[ModelPair]:
    """Compare each model of one run with each of another one, in speed only if ``speeds``."""
    old, new = runs.values()
    metrics = shared_metrics(old, new)
    settings = new.settings.model_copy(update={"metrics": tuple(metrics)})
    cells, owner = [], dict[str, str]()
    for label, bench in runs.items():
        for cell in bench.cells:
            name = f"{label} · {cell.model}"
            owner[name] = label
            cells.append(cell.model_copy(update={"model": name}))
    return [
        pair if speeds else pair.model_copy(update={"speed": {}})
        for pair in pairs(cells, [s.reference for s in new.samples], settings)
        if owner[pair.model] != owner[pair.against]
    ]
