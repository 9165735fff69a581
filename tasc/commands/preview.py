"""What a recipe would do: its steps in order, what each needs, and how long it took before."""

from pathlib import Path
from typing import Any

from tasc.commands.estimate import Estimates
from tasc.commands.plan import Plan
from tasc.errors import TascError
from tasc.files.artefact import MANIFEST, check_output, read_manifest
from tasc.options.command import StepOptions
from tasc.options.references import parse_label
from tasc.progress import Progress, silent
from tasc.report.record import Record


class PlannedStep(Record):
    """A step that a recipe would do."""

    name: str
    command: str
    needs: tuple[str, ...]
    """Earlier steps that it reads."""
    output: str
    options: dict[str, Any]
    """Those that the recipe gives, as JSON values."""
    last_seconds: float | None
    """What the step took when ``output`` was written, with whatever options it had then."""
    estimated_seconds: float | None
    """What it may take where it has not run; None where nothing can be said."""


def preview(plan: Plan, output: Path, progress: Progress = silent) -> tuple[PlannedStep, ...]:
    """Return the steps of a checked recipe. Nothing is run, and nothing is written.

    Where models train or decode that have not, models of their shape are timed.

    Raises:
        InputError: an output must not be written, as ``tasc run`` would find.
    """
    for name in plan.steps:
        check_output(output / name, force=True)
    estimates, steps = Estimates(), []
    for i, (name, step) in enumerate(plan.steps.items()):
        progress("estimating", i, len(plan.steps))
        steps.append(_planned(name, step, plan, output, estimates))
    return tuple(steps)


def _planned(
    name: str, step: StepOptions, plan: Plan, output: Path, estimates: Estimates
) -> PlannedStep:
    named = (parse_label(text)[1] for field in step.references for text in step.named(field))
    needs = dict.fromkeys(other for other in named if other in plan.steps)
    given = step.model_fields_set - {"source"}
    last = _last_seconds(output / name)
    estimate = estimates.add(name, step, last)
    return PlannedStep(
        name=name,
        command=step.command,
        needs=tuple(needs),
        output=str(output / name),
        options=step.model_dump(mode="json", include=given),
        last_seconds=last,
        estimated_seconds=estimate if last is None else None,
    )


def _last_seconds(folder: Path) -> float | None:
    """Return how long what lies in ``folder`` took, as its manifest says."""
    if not (folder / MANIFEST).is_file():
        return None
    try:
        seconds = read_manifest(folder).get("seconds")
    except TascError:  # a damaged one is told of when the step runs
        return None
    return float(seconds) if isinstance(seconds, int | float) else None
