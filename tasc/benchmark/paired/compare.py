"""Two benches of the same samples, before and after a change: is anything worse beyond the noise?

The samples are the same, so what makes one hard cancels out. What does not is that two runs of one
program differ in speed by more than their samples say: a speed must be worse by the tolerance, too.
"""

import json
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, ValidationError

from tasc.benchmark.metrics import check_metrics, find
from tasc.benchmark.metrics.metric import Counts
from tasc.benchmark.paired.pairs import Speeds, counted, quality_difference
from tasc.benchmark.paired.statistics import CONFIDENCE, Bootstrap
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.changes import Change, ResultsComparison
from tasc.errors import InputError
from tasc.options.command import CommandOptions
from tasc.options.fields import Shell
from tasc.options.references import results_file
from tasc.report.record import Interval

_RESAMPLES = 10_000  # the tails of an interval are small where there are many
# What makes a speed another one.
_SETTINGS = (
    *("dtype", "device", "threads", "batch_size", "max_new_tokens", "sampling", "graphs"),
    "compiled",
)
_MACHINE = ("processor", "cores")


class CompareOptions(CommandOptions):
    """Options of ``tasc compare``."""

    command = "compare"
    flags: ClassVar = ("json",)

    old: Annotated[str, Shell(argument=True)] = Field(
        description="Folder of tasc bench, or its results.json, from before a change."
    )
    new: Annotated[str, Shell(argument=True)] = Field(
        description="The same from after it, on the same samples."
    )
    tolerance: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="Share of its speed that a method may lose: runs of one program differ, too.",
    )


def compare_results(options: CompareOptions) -> ResultsComparison:
    """Compare all that two benches have in common.

    Raises:
        InputError: a file is not there or no result of a bench, their samples differ, or no model
            and method is in both.
    """
    old, new = (read_results(path) for path in (options.old, options.new))
    _check_samples(old, new)
    both = _common(old, new)
    notes = list(differences(old, new))
    metrics = [name for name in new.settings.metrics if name in old.settings.metrics]
    check_metrics(metrics)
    models = {cell.model for cell, _ in both}
    tests = len(metrics) * len(models) + (1 if notes else 2) * len(both)
    judge = _Judge(old, new, 1 - (1 - CONFIDENCE) / tests)
    changes = [*judge.qualities(both, metrics), *(judge.steps(*pair) for pair in both)]
    if not notes:
        changes += [judge.speed(*pair, options.tolerance) for pair in both]
    return ResultsComparison(
        old=options.old,
        new=options.new,
        samples=len(new.samples),
        confidence=judge.confidence,
        tolerance=options.tolerance,
        notes=tuple(notes),
        changes=tuple(changes),
    )


def read_results(path: str) -> BenchResults:
    """Read a ``results.json``, or that of a folder. Raises InputError where it is none."""
    file = results_file(path)
    again = "name the folder of a tasc bench, or run the bench again"
    try:
        return BenchResults.model_validate_json(file.read_bytes())
    except (ValidationError, json.JSONDecodeError):
        raise InputError(f"{file} is no result of a tasc bench of this version: {again}") from None


def _check_samples(old: BenchResults, new: BenchResults) -> None:
    ids = [[sample.id for sample in found.samples] for found in (old, new)]
    if ids[0] != ids[1]:
        shared = len(set(ids[0]) & set(ids[1]))
        raise InputError(
            f"the samples differ: {len(ids[0])} and {len(ids[1])}, of which {shared} are in both: "
            "run both benches with the same --split, --limit and --seed"
        )


def _common(old: BenchResults, new: BenchResults) -> list[tuple[Cell, Cell]]:
    before = {cell.label: cell for cell in old.cells}
    both = [(before[cell.label], cell) for cell in new.cells if cell.label in before]
    if not both:
        names = [", ".join(cell.label for cell in found.cells) for found in (old, new)]
        raise InputError(
            f"no model and method is in both: {names[0]}; {names[1]}: name models alike with "
            "--model LABEL=PATH"
        )
    return both


def differences(old: BenchResults, new: BenchResults) -> Iterator[str]:
    """Tell what makes speeds of two benches incomparable: settings, and the machine."""
    for name in _SETTINGS:
        yield from _note(name, getattr(old.settings, name), getattr(new.settings, name))
    for name in _MACHINE:
        machines = (found.environment.machine for found in (old, new))
        yield from _note(name, *(getattr(machine, name) for machine in machines))


def _note(name: str, before: object, after: object) -> Iterator[str]:
    if before != after:
        yield f"{name.replace('_', ' ')} is {after}, was {before}: speed is not compared"


class _Judge:
    """Compares cells at one confidence."""

    def __init__(self, old: BenchResults, new: BenchResults, confidence: float) -> None:
        self.confidence, self._settings = confidence, new.settings
        self._references = [sample.reference for sample in new.samples]
        self._bootstrap = Bootstrap(len(old.samples), resamples=_RESAMPLES)
        self._speeds = Speeds(len(old.samples), new.settings.turn, _RESAMPLES)

    def qualities(self, both: list[tuple[Cell, Cell]], metrics: list[str]) -> Iterator[Change]:
        """Compare the quality of each model's first method."""
        firsts: dict[str, tuple[Cell, Cell]] = {}
        for pair in both:
            firsts.setdefault(pair[1].model, pair)
        for before, after in firsts.values():
            old, new = (
                counted(
                    cell.texts, self._references, metrics, self._settings.delimiter, cell.scores
                )
                for cell in (before, after)
            )
            for name in metrics:
                yield self._quality(name, after, old[name], new[name])

    def _quality(self, name: str, cell: Cell, old: Counts, new: Counts) -> Change:
        metric = find(name)
        seen = quality_difference(self._bootstrap, metric, new, old, self.confidence)
        p_value = None if seen.mcnemar is None else seen.mcnemar.p_value
        verdict = _verdict(seen.interval, 0.0, 0.0)
        if p_value is not None:
            sure = p_value < 1 - self.confidence
            verdict = ("worse" if seen.difference < 0 else "better") if sure else "within the noise"
        return Change(
            model=cell.model,
            method=cell.method,
            what=name,
            old=float(metric.value(old.sum(0))),
            new=float(metric.value(new.sum(0))),
            change=seen.difference,
            interval=seen.interval,
            p_value=p_value,
            verdict=verdict,
        )

    def steps(self, before: Cell, after: Cell) -> Change:
        """Compare decoding steps: they do not depend on the machine."""
        own, other = (np.array([(o.steps, 1.0) for o in c.outputs]) for c in (after, before))
        means = before.decoding_steps_per_output, after.decoding_steps_per_output
        return _ratio("steps", after, means, self._bootstrap.ratio(own, other, self.confidence))

    def speed(self, before: Cell, after: Cell, tolerance: float) -> Change:
        """Compare the time of a sample, or of a token where outputs differ by chance."""
        seen = self._speeds.ratio(after, before, self.confidence)
        means, found = (before.ms_per_sample, after.ms_per_sample), (seen.ratio, seen.interval)
        return _ratio("speed", after, means, found, tolerance)


def _ratio(
    what: str,
    cell: Cell,
    means: tuple[float, float],
    found: tuple[float, Interval],
    tolerance: float = 0.0,
) -> Change:
    return Change(
        model=cell.model,
        method=cell.method,
        what=what,
        old=means[0],
        new=means[1],
        change=found[0],
        interval=found[1],
        p_value=None,
        verdict=_verdict(found[1], 1 - tolerance, 1 / (1 - tolerance)),
    )


def _verdict(
    interval: Interval, low: float, high: float
) -> Literal["worse", "better", "within the noise"]:
    """Say on which side of ``low`` to ``high`` an interval lies as a whole."""
    if interval is None or (interval[0] <= high and interval[1] >= low):
        return "within the noise"
    return "worse" if interval[1] < low else "better"
