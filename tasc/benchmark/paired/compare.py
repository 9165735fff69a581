"""``tasc compare``: is anything worse in the second of two benches, beyond the noise?

The samples are the same, so differences between samples cancel out. Differences between runs of one
program do not: a speed must be worse by the tolerance, too.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, ValidationError

from tasc.benchmark.metrics import JUDGE, check_metrics, find
from tasc.benchmark.paired.pairs import Speeds, counted, qualities
from tasc.benchmark.paired.prompts import prompt_notes
from tasc.benchmark.paired.statistics import CONFIDENCE, FEWEST, Bootstrap
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.comparisons import Change, ResultsComparison
from tasc.errors import InputError
from tasc.options.command import CommandOptions
from tasc.options.fields import Shell
from tasc.options.references import results_file
from tasc.report.record import Interval

_RESAMPLES = 10_000  # many intervals have small tails
# Speeds are compared only where these are equal.
_SETTINGS = (
    *("dtype", "device", "threads", "batch_size", "max_new_tokens", "sampling", "graphs"),
    "compiled",
)
_MACHINE = ("processor", "cores")
_LENGTHS = ("max_new_tokens", "sampling")  # steps are compared only where these are equal, too

CellPair = tuple[Cell, Cell]  # of both benches
Verdict = Literal["worse", "better", "within the noise"]


class CompareOptions(CommandOptions):
    """Options of ``tasc compare``."""

    command = "compare"
    flags: ClassVar = ("json",)

    old: Annotated[str, Shell(argument=True)] = Field(
        description="First bench: folder of tasc bench, or its results.json."
    )
    new: Annotated[str, Shell(argument=True)] = Field(
        description="Second bench, on the same samples."
    )
    tolerance: float = Field(
        0.05, ge=0, lt=1, description="Share of its speed that a method may lose as noise."
    )


def compare_results(options: CompareOptions) -> ResultsComparison:
    """Compare the cells that two benches have in common.

    Raises InputError if a file is missing or not a result of a bench, the samples differ, or the
    benches share no model and method.
    """
    old, new = on_same_samples(*(read_results(path) for path in (options.old, options.new)))
    both = _common(old, new)
    notes, prompts = tuple(differences(old, new)), tuple(prompt_notes(old, new))
    metrics = shared_metrics(old, new)
    check_metrics(metrics)
    firsts = dict[tuple[str, bool], CellPair]()  # methods that choose have outputs of their own
    for pair in both:
        firsts.setdefault((pair[1].model, pair[1].chooses), pair)
    tests = len(metrics) * len(firsts) + (1 if notes else 2) * len(both)
    confidence = 1 - (1 - CONFIDENCE) / tests
    changes = [*_qualities([*firsts.values()], new, metrics, confidence)]
    same_lengths = all(getattr(old.settings, n) == getattr(new.settings, n) for n in _LENGTHS)
    if same_lengths and new.task.template == old.task.template:
        changes += _steps(both, confidence)
    if not notes:
        changes += _speeds(both, new.settings.turn, options.tolerance, confidence)
    return ResultsComparison(
        old=options.old,
        new=options.new,
        samples=len(new.samples),
        confidence=confidence,
        tolerance=options.tolerance,
        notes=(*prompts, *notes, *_untested(old, new, metrics, changes)),
        changes=tuple(changes),
    )


def _untested(
    old: BenchResults, new: BenchResults, metrics: Sequence[str], changes: Sequence[Change]
) -> Iterator[str]:
    """Yield what both benches have, and is not compared or not tested."""
    if JUDGE in {*old.settings.metrics} & {*new.settings.metrics} - {*metrics}:
        yield f"judge is {new.settings.judge}, was {old.settings.judge}: scores are not compared"
    if any(change.interval is None and change.p_value is None for change in changes):
        speeds = (FEWEST - 1) * new.settings.turn + 1
        needed = f"intervals need {FEWEST} samples, and of speeds {speeds:,}"
        yield f"{needed}, not {len(new.samples):,}: figures without one are not tested"


def read_results(path: str) -> BenchResults:
    """Read the ``results.json`` of a bench, or of its folder. Raises InputError."""
    file = results_file(path)
    try:
        results = BenchResults.model_validate_json(file.read_bytes())
    except ValidationError:
        raise InputError(
            f"{file} is not a result of tasc bench of this version: "
            "pass the folder of a tasc bench, or run the bench again"
        ) from None
    if wrong := next(results.contradictions(), None):
        raise InputError(f"{file} was edited: {wrong}; run the bench again")
    return results


def on_same_samples(old: BenchResults, new: BenchResults) -> tuple[BenchResults, BenchResults]:
    """Return both, cut to the shorter one if ``minutes`` ended them; InputError if they differ."""
    before, after = ([sample.id for sample in bench.samples] for bench in (old, new))
    count = min(len(before), len(after))
    if old.settings.minutes and new.settings.minutes and before[:count] == after[:count]:
        old, new = _first(old, count), _first(new, count)
    elif before != after:
        raise InputError(
            f"the samples differ: {len(before)} and {len(after)}, of which "
            f"{len({*before} & {*after})} are in both: run both benches with the same "
            "--split, --limit and --seed, and both with --minutes or both without"
        )
    _check_references(old, new)
    return old, new


def _check_references(old: BenchResults, new: BenchResults) -> None:
    """Raise InputError if the references of the same samples differ."""
    for before, after in zip(old.samples, new.samples, strict=True):
        if before.reference != after.reference:
            raise InputError(
                f"the same sample has other expected outputs, {before.reference[-60:]!r} and "
                f"{after.reference[-60:]!r}, as chat templates write them: run both benches with "
                "models of one chat template"
            )


def _first(bench: BenchResults, count: int) -> BenchResults:
    """Return a bench with the outputs of its first ``count`` samples; its figures stay."""
    cells = tuple(  # sample_ms may be cached
        cell.model_copy(
            update={"outputs": cell.outputs[:count], "sample_ms": cell.sample_ms[:count]}
        )
        for cell in bench.cells
    )
    return bench.model_copy(update={"samples": bench.samples[:count], "cells": cells})


def shared_metrics(old: BenchResults, new: BenchResults) -> list[str]:
    """Return the metrics of both, without ``judge`` if two models judged."""
    both = [name for name in new.settings.metrics if name in old.settings.metrics]
    return [name for name in both if name != JUDGE or old.settings.judge == new.settings.judge]


def _common(old: BenchResults, new: BenchResults) -> list[CellPair]:
    """Return the cells of both benches. Raises InputError without any."""
    cells = {cell.label: cell for cell in old.cells}
    both = [(cells[cell.label], cell) for cell in new.cells if cell.label in cells]
    if not both:
        names = [", ".join(cell.label for cell in bench.cells) for bench in (old, new)]
        raise InputError(
            f"no model and method is in both: {names[0]}; {names[1]}: give the models the same "
            "names with --model LABEL=PATH"
        )
    return both


def differences(old: BenchResults, new: BenchResults) -> Iterator[str]:
    """Yield each difference in settings or machine that makes the speeds incomparable."""
    before, after = (
        {name: getattr(bench.settings, name) for name in _SETTINGS}
        | {name: getattr(bench.environment.machine, name) for name in _MACHINE}
        for bench in (old, new)
    )
    if new.task.template != old.task.template:
        yield "--template differs: steps and speed are not compared"
    for name, value in after.items():
        if value != before[name]:
            what = "speed is" if name not in _LENGTHS else "steps and speed are"
            yield f"{name.replace('_', ' ')} is {value}, was {before[name]}: {what} not compared"


def _qualities(
    firsts: list[CellPair], new: BenchResults, metrics: list[str], confidence: float
) -> Iterator[Change]:
    references = [sample.reference for sample in new.samples]
    bootstrap = Bootstrap(len(references), resamples=_RESAMPLES)
    for pair in firsts:
        both = [counted(cell, references, metrics, new.settings.delimiter) for cell in pair]
        for name, test in qualities(bootstrap, both[1], both[0], confidence).items():
            verdict, p_value = _verdict(test.interval), None
            if test.mcnemar is not None:
                p_value = test.mcnemar.p_value
                significant = p_value < 1 - confidence
                verdict = _verdict((test.difference, test.difference) if significant else None)
            old, now = (float(find(name).value(counts[name].sum(0))) for counts in both)
            change = test.difference, test.interval
            yield _change(pair[1], name, (old, now), change, verdict, p_value)


def _steps(both: list[CellPair], confidence: float) -> Iterator[Change]:
    """Compare decoding steps, which do not depend on the machine."""
    bootstrap = Bootstrap(len(both[0][0].outputs), resamples=_RESAMPLES)
    for before, after in both:
        old, new = (np.array([(o.steps, 1.0) for o in cell.outputs]) for cell in (before, after))
        change = bootstrap.ratio(new, old, confidence)
        means = float(old[:, 0].mean()), float(new[:, 0].mean())
        yield _change(after, "steps", means, change, _verdict(change[1], 1, 1))


def _speeds(
    both: list[CellPair], turn: int, tolerance: float, confidence: float
) -> Iterator[Change]:
    """Compare the time per sample, or per token where outputs differ by chance."""
    speeds = Speeds(len(both[0][0].outputs), turn, _RESAMPLES)
    for before, after in both:
        speed = speeds.ratio(after, before, confidence)
        means = float(before.sample_ms.mean()), float(after.sample_ms.mean())
        verdict = _verdict(speed.interval, 1 - tolerance, 1 / (1 - tolerance))
        yield _change(after, "speed", means, (speed.ratio, speed.interval), verdict)


def _change(
    cell: Cell,
    what: str,
    means: tuple[float, float],
    change: tuple[float, Interval],
    verdict: Verdict,
    p_value: float | None = None,
) -> Change:
    return Change(
        model=cell.model,
        method=cell.method,
        what=what,
        old=means[0],
        new=means[1],
        change=change[0],
        interval=change[1],
        p_value=p_value,
        verdict=verdict,
    )


def _verdict(interval: Interval, low: float = 0.0, high: float = 0.0) -> Verdict:
    """Return whether a whole interval lies below ``low`` or above ``high``."""
    if interval is None or (interval[0] <= high and interval[1] >= low):
        return "within the noise"
    return "worse" if interval[1] < low else "better"
