"""The steps of a recipe in order: their inputs, options, and durations of earlier runs."""

from pathlib import Path
from typing import Any

from tasc.commands.plan import Plan
from tasc.errors import TascError
from tasc.files.artefact import check_output, read_manifest
from tasc.options.command import StepOptions
from tasc.options.references import resolve_model
from tasc.report.record import Record
from tasc.tokenizer.loaded import load_tokenizer
from tasc.vocab.exports.export import Exporter
from tasc.vocab.search.options import AugmentOptions


class PlannedStep(Record):
    """A step of a checked recipe."""

    name: str
    command: str
    needs: tuple[str, ...]
    """Earlier steps that it reads."""
    output: str
    options: dict[str, Any]
    """The options that the recipe sets, as JSON values."""
    last_seconds: float | None
    """Duration of the run that wrote ``output``, possibly with other options."""


def preview(plan: Plan, output: Path) -> tuple[PlannedStep, ...]:
    """Return the steps of ``plan``. Runs and writes nothing.

    Raises InputError if ``tasc run`` would refuse an output, or a local model or tokenizer.
    """
    for name, step in plan.steps.items():
        check_output(output / name, force=True)
        if isinstance(step, AugmentOptions) and step.wanted and Path(step.tokenizer).exists():
            Exporter(load_tokenizer(step.tokenizer), step.export)
        _check_models(step, plan)
    return tuple(
        PlannedStep(
            name=name,
            command=step.command,
            needs=tuple(dict.fromkeys(p for *_, p in step.references() if p in plan.steps)),
            output=str(output / name),
            options=step.model_dump(mode="json", include=step.model_fields_set - {"source"}),
            last_seconds=_last_seconds(output / name),
        )
        for name, step in plan.steps.items()
    )


def _check_models(step: StepOptions, plan: Plan) -> None:
    """Check the local models that a step reads, as it does before it loads them."""
    from tasc.models.load import check_model

    for _, kind, path in step.references():
        if kind == "model" and path not in plan.steps and Path(path).exists():
            check_model(resolve_model(path)[1])


def _last_seconds(folder: Path) -> float | None:
    try:
        seconds = read_manifest(folder).get("seconds")
    except TascError:  # there is none, or it is damaged, which is reported when the step runs
        return None
    return float(seconds) if isinstance(seconds, int | float) else None
