"""``tasc run``: a whole recipe, each step done once."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._command import output_path, show
from .._console import note, print_json, say, table
from .._derive import RunFlags
from .._progress import show_progress

if TYPE_CHECKING:
    from tasc.commands.plan import RunOptions
    from tasc.commands.preview import PlannedStep


def run(options: "RunOptions", flags: RunFlags) -> None:
    """Run a recipe, or print its plan."""
    from tasc.commands.plan import read
    from tasc.commands.runner import find, run_recipe
    from tasc.options.references import expanded

    path = find(str(expanded(Path(options.recipe))))
    plan = read(path, options)
    folder = output_path("output", flags.output) or Path("tasc-out") / path.stem
    if options.dry_run:
        from tasc.commands.preview import preview

        with show_progress() as progress:
            steps = preview(plan, folder, progress)
        _show_plan(steps, plan.name, flags)
        return
    results: dict[str, Any] = {}
    outcomes = run_recipe(plan, folder, show_progress=show_progress, force=flags.force, tell=note)
    for name, step, done in outcomes:
        results[name] = done.report.to_dict()
        state = "up to date" if done.reused else "done"
        note(f"{name}: {state} ({done.output})")
        if not flags.json:
            show(step.command)(done.report)
    if flags.json:
        print_json(results)


def _show_plan(steps: "tuple[PlannedStep, ...]", name: str, flags: RunFlags) -> None:
    if flags.json:
        print_json([step.model_dump(mode="json") for step in steps])
        return
    table(
        f"{name}: {len(steps)} steps, nothing wrong was found",
        ["step", "command", "reads", "takes", "options"],
        [
            [
                step.name,
                step.command,
                ", ".join(step.needs) or "-",
                _takes(step),
                _options(step),
            ]
            for step in steps
        ],
        text_columns=5,
    )
    if any(step.last_seconds is not None for step in steps):
        say("Last time: what a step took when its folder was written, as it was then.")
    if any(step.estimated_seconds is not None for step in steps):
        say("About: from the size of the data and models of this shape, timed here without drafts.")


def _takes(step: "PlannedStep") -> str:
    """Return how long a step took, or may take."""
    if step.last_seconds is not None:
        return f"{_duration(step.last_seconds)} last time"
    return "-" if step.estimated_seconds is None else f"about {_duration(step.estimated_seconds)}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def _options(step: "PlannedStep") -> str:
    """Return the options that the recipe gives, but those that name an earlier step."""
    told = {k: v for k, v in step.options.items() if k != "seed" and v not in step.needs}
    return ", ".join(f"{key}={_short(value)}" for key, value in told.items())


def _short(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)
