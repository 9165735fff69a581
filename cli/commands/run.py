"""``tasc run``: run a recipe, and skip the steps that are up to date."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasc.commands.plan import Plan, RunOptions, read
from tasc.commands.steps import PlannedStep, find, preview, run_recipe
from tasc.options.references import expanded

from .._command import module, output_folder, resumable
from .._console import note, print_json, say, table_of
from .._derive import RunFlags
from .._estimates import duration, show_estimates
from .._progress import show_progress
from .analyze import show_verdict


def run(options: RunOptions, flags: RunFlags) -> None:
    """Run a recipe, or print its plan."""
    path = find(str(expanded(Path(options.recipe))))
    plan = read(path, options)
    folder = output_folder(flags, path.stem)
    if options.dry_run:
        with show_progress() as progress:
            steps = preview(plan, folder, progress)
        _show_plan(steps, plan.name, flags)
    else:
        _run_steps(plan, folder, flags)


def _run_steps(plan: Plan, folder: Path, flags: RunFlags) -> None:
    """Run the steps; print the reports of those that were not up to date, and of the last one."""
    results: dict[str, Any] = {}
    outcomes = run_recipe(plan, folder, show_progress=show_progress, force=flags.force, tell=note)
    with resumable(lambda: folder.exists() and any(folder.iterdir()), "finished steps are kept"):
        for name, step, done in outcomes:
            results[name] = done.report.to_dict()
            state = "up to date" if done.reused else "done"
            note(f"{name}: {state} ({done.output})")
            if not flags.json and (not done.reused or name == list(plan.steps)[-1]):
                module(step.command).show(done.report)
    if flags.json:
        print_json(results)


def _show_plan(steps: tuple[PlannedStep, ...], name: str, flags: RunFlags) -> None:
    if flags.json:
        print_json([step.model_dump(mode="json") for step in steps])
        return
    running = [step for step in steps if step.left_out is None]
    title = f"{name}: the recipe is valid, {len(running)} steps"
    table_of(title, running, _COLUMNS, text_columns=len(_COLUMNS))
    show_estimates({step.name: step.estimate for step in running if step.estimate})
    if any(step.last_seconds is not None for step in steps):
        say("Last run: duration of the run that wrote the step's folder.")
    for step in steps:
        if step.verdict:
            show_verdict(step.verdict)
    for line in dict.fromkeys(step.left_out for step in steps if step.left_out):
        say(line)


def _memory(size: int | None) -> str:
    return "-" if size is None else f"{size / 2**30:.1f} GiB"


def _options(step: PlannedStep) -> str:
    """Format the options that the recipe sets, without references to earlier steps."""
    options = {k: v for k, v in step.options.items() if k != "seed" and v not in step.needs}
    return ", ".join(
        f"{key}={'+'.join(map(str, value)) if isinstance(value, list) else value}"
        for key, value in options.items()
    )


_COLUMNS: dict[str, Callable[[PlannedStep], str]] = {
    "step": lambda step: step.name,
    "command": lambda step: step.command,
    "reads": lambda step: ", ".join(step.needs) or "-",
    "time": lambda step: duration(step.estimate.seconds if step.estimate else None),
    "memory": lambda step: _memory(step.estimate.memory if step.estimate else None),
    "last run": lambda step: duration(step.last_seconds),
    "options": _options,
}
