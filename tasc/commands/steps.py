"""Run a command as a step that writes an artefact, and show or run the steps of a recipe."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from tasc.analysis.options import AnalyzeOptions
from tasc.benchmark.pages.write import write_pages
from tasc.benchmark.results.analysis import AnalysisResults, Verdict
from tasc.commands.advice import LeftOut, advised_against, without
from tasc.commands.context import StepContext, with_prompts
from tasc.commands.estimate import MadeAnalysis, StepEstimate, estimate_steps
from tasc.commands.plan import Plan
from tasc.commands.registry import STEPS
from tasc.errors import InputError, TascError
from tasc.files.artefact import (
    Step,
    check_kept,
    check_output,
    create,
    fingerprint,
    read_manifest,
    up_to_date,
    write_json,
)
from tasc.files.packaged import is_here
from tasc.files.scratch import scratch
from tasc.options.command import StepOptions
from tasc.options.references import join, parse_label, resolve_model
from tasc.options.texts import Texts, read_texts
from tasc.progress import Progress, silent
from tasc.report.record import Record, Report, Reported
from tasc.tokenizer.files import COMPANIONS
from tasc.tokenizer.loaded import load_tokenizer
from tasc.vocab.exports.export import Exporter
from tasc.vocab.search.options import AugmentOptions


@dataclass(frozen=True)
class Outcome:
    """A finished step: its folder, its typed report, and whether it was there already."""

    output: Path
    report: Any  # of a class in ``tasc.commands.registry``
    reused: bool


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
    verdict: Verdict | None
    """The verdict of an analysis that can be made now; None for other steps."""
    left_out: str | None
    """Why the step will be left out, and how to put it back; None if it will run."""
    estimate: StepEstimate | None
    """The estimated time and memory of the step; None if it is left out."""


def run_step(
    options: StepOptions,
    output: Path,
    *,
    force: bool = False,
    reuse: bool = False,
    resume: bool | Literal["only"] = True,
    progress: Progress = silent,
    tell: Callable[[str], object] = str,
) -> Outcome:
    """Run one step into ``output``; with ``reuse``, an artefact of the same step is left alone.

    ``resume`` continues a killed run of the very same step from its last checkpoint; "only" refuses
    if the checkpoints belong to another step. ``tell`` receives a line on how unnamed columns are
    read, lines on columns and examples that are not, and lines if the chat template writes the
    date, changes the white space of answers, or does not read keys of messages.
    """
    check_kept(output, _read(options))
    texts = read_texts(options)
    step, command = _identity(options, texts), STEPS[options.command]
    if reuse and up_to_date(output, step):
        return Outcome(output, command.read_report(output / options.spec.result_file), reused=True)
    insist = resume == "only"
    with create(output, step, force=force or reuse, seed=options.seed, insist=insist) as workspace:
        for line in filter(None, (texts.recognised, texts.unread_marks, texts.left_out)):
            tell(line)
        texts = with_prompts(options, texts, datetime.fromtimestamp(workspace.began))
        for line in texts.chat_notes:
            tell(line)
        context = StepContext(texts, workspace.work, bool(resume), progress)
        result: Report | Reported = command.function()(options, context)
        report: Report = result if isinstance(result, Report) else result.report
        if isinstance(result, Reported):
            result.save(workspace.folder)
        write_pages(report, workspace.folder)
        write_json(workspace.folder / options.spec.result_file, report.to_dict())
    return Outcome(output, report, reused=False)


def _identity(options: StepOptions, texts: Texts) -> Step:
    """Return what distinguishes a step from others: its options and the contents that it reads."""
    asked = options.model_dump(mode="json", exclude={*options.spec.incidental})
    inputs = {"source": texts.fingerprint}
    for name in options.spec.references:
        inputs[name] = " ".join(map(_identify, options.named(name)))
    return Step(options.command, asked, inputs)


def _read(options: StepOptions) -> Iterator[Path]:
    """Yield what a step reads: its data, and all that its options refer to."""
    if options.data:
        yield Path(options.data.source().path)
    yield from (Path(path) for *_, path in options.references())


def _identify(text: str) -> str:
    """Name what a reference holds: label and contents of what lies there, or the Hub id itself.

    With a tokenizer's file go those beside it that belong to it.
    """
    label, path = parse_label(text)
    folder = Path(path)
    if not folder.exists():
        return text
    beside = [folder.parent / name for name in COMPANIONS] if folder.suffix == ".json" else []
    digests = [fingerprint(file) for file in (folder, *beside) if file == folder or file.is_file()]
    return join(label, "+".join(digests))


def directory() -> Path:
    """Return the folder of the packaged recipes: the checkout's, else the installed copy."""
    checkout = Path(__file__).resolve().parents[2] / "recipes"
    return checkout if checkout.is_dir() else Path(str(files("tasc") / "recipes"))


def find(recipe: str) -> Path:
    """Return the file of a recipe given by its path or by the name of a packaged one."""
    for path in (Path(recipe), directory() / recipe, directory() / f"{recipe}.yaml"):
        if path.is_file():
            return path
    raise InputError(
        f"no recipe {recipe!r}: give a YAML file, one of {', '.join(names())}, or write one with "
        "tasc init"
    )


def names() -> list[str]:
    """Return the names of the packaged recipes, except those in ``results``."""
    paths = [*directory().glob("*.yaml"), *directory().glob("smollm2/*.yaml")]
    return sorted(str(path.relative_to(directory()).with_suffix("")) for path in paths)


def preview(plan: Plan, output: Path, progress: Progress = silent) -> tuple[PlannedStep, ...]:
    """Return the steps of ``plan`` with estimates of their cost. Writes nothing.

    Analyses run, and a few training steps and forwards of local models are measured. An analysis
    that needs an earlier step's artefact runs only if that is there. Raises InputError
    if ``tasc run`` would refuse an output, or a local model or tokenizer.
    """
    from tasc.models.load import check_model

    for name, step in plan.steps.items():
        check_output(output / name, force=True)
        if isinstance(step, AugmentOptions) and step.wanted and Path(step.tokenizer).exists():
            Exporter(load_tokenizer(step.tokenizer), step.export)
        for _, kind, path in step.references():
            if kind == "model" and path not in plan.steps and Path(path).exists():
                check_model(resolve_model(path)[1])  # as the step does before it loads it
    analyses, left_out = dict[str, AnalysisResults](), dict[str, LeftOut]()
    seconds = dict[str, float]()
    for name, step in plan.steps.items():
        begin = time.process_time()
        if isinstance(step, AnalyzeOptions) and (
            analysis := _analysis(step, plan, output, progress)
        ):
            analyses[name], seconds[name] = analysis, time.process_time() - begin
        if against := advised_against(plan, name, analyses):
            left_out |= dict.fromkeys(against.steps, against)
    planned = {name: without(step, {*left_out}) or step for name, step in plan.steps.items()}
    running = {name: step for name, step in planned.items() if name not in left_out}
    made_now = {name: MadeAnalysis(analyses[name], seconds[name]) for name in analyses}
    estimates = estimate_steps(Plan(plan.name, running), made_now, progress)
    return tuple(
        PlannedStep(
            name=name,
            command=step.command,
            needs=tuple(dict.fromkeys(p for *_, p in step.references() if p in plan.steps)),
            output=str(output / name),
            options=step.model_dump(mode="json", include=step.model_fields_set - {"source"}),
            last_seconds=_last_seconds(output / name),
            verdict=analyses[name].verdict if name in analyses else None,
            left_out=left_out[name].line if name in left_out else None,
            estimate=estimates.get(name),
        )
        for name, step in planned.items()
    )


def _analysis(
    step: AnalyzeOptions, plan: Plan, output: Path, progress: Progress
) -> AnalysisResults | None:
    """Return the results of an analysis; None if a step whose artefact it reads has not run.

    Without the time of a model's forwards, which only a measurement knows.
    """
    needed = {name for *_, name in step.references() if name in plan.steps}
    if any(_last_seconds(output / name) is None for name in needed):
        return None
    ready = step.model_copy(update=_resolved(step, plan, output))
    tokenizer = ready.tokenizer or (ready.model and resolve_model(ready.model)[1])
    if tokenizer and not is_here(tokenizer):  # it is on the Hub, or its package is missing
        return None
    ready = ready.model_copy(update={"tokenizer": tokenizer, "model": None})
    with scratch() as folder:
        context = StepContext(with_prompts(ready, read_texts(ready)), folder, progress=progress)
        report: AnalysisResults = STEPS[ready.command].function()(ready, context).report
    return report


def _last_seconds(folder: Path) -> float | None:
    try:
        seconds = read_manifest(folder).get("seconds")
    except TascError:  # there is none, or it is damaged, which is reported when the step runs
        return None
    return float(seconds) if isinstance(seconds, int | float) else None


def run_recipe(
    plan: Plan,
    output: Path,
    *,
    show_progress: Callable[[], AbstractContextManager[Progress]],
    force: bool = False,
    tell: Callable[[str], object] = str,
) -> Iterator[tuple[str, StepOptions, Outcome]]:
    """Run the steps of ``plan`` into ``output``/step, and yield each when it is done.

    Steps whose inputs and options have not changed are skipped, unless ``force``; a killed step
    continues from its last checkpoint. Steps that an analysis of the recipe advises against are
    left out. ``show_progress`` shows the progress of one step; ``tell``
    is as for ``run_step``.
    """
    for name in plan.steps:
        check_output(output / name, force=True)  # all of them, before the first one works
    analyses, left_out = dict[str, AnalysisResults](), set[str]()
    for name, planned in plan.steps.items():
        if against := advised_against(plan, name, analyses):
            tell(against.line)
            left_out.update(against.steps)
        config = None if name in left_out else without(planned, left_out)
        if config is None:
            continue
        ready = config.model_copy(update=_resolved(config, plan, output))
        folder = output / name
        with show_progress() as progress:
            outcome = run_step(
                ready, folder, force=force, reuse=not force, progress=progress, tell=tell
            )
        if isinstance(outcome.report, AnalysisResults):
            analyses[name] = outcome.report
        yield name, ready, outcome


def _resolved(config: StepOptions, plan: Plan, output: Path) -> dict[str, Any]:
    """Replace the names of steps by their folders in every field that refers to something."""

    def folder(text: str) -> str:
        label, name = parse_label(text)
        return join(label, str(output / name)) if name in plan.steps else text

    values = {name: getattr(config, name) for name in config.spec.references}
    return {
        name: tuple(map(folder, value)) if isinstance(value, tuple) else folder(value)
        for name, value in values.items()
        if value is not None
    }
