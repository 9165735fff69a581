"""``tasc run``: a whole recipe, each step done once."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .._command import output_path
from .._commands import COMMANDS
from .._console import note, print_json
from .._derive import RunFlags, class_at
from .._derive import register as register_derived
from .._progress import show_progress

if TYPE_CHECKING:
    from tasc.commands.plan import RunOptions


def register(app: typer.Typer) -> None:
    """Make it a command of ``app``."""
    told = "Run a recipe: analyze, augment, finetune, bench; finished steps are not run again."
    register_derived(app, "run", told, class_at("tasc.commands.plan:RunOptions"), _run)


def _run(options: "RunOptions", flags: RunFlags) -> None:
    from tasc.commands.plan import read
    from tasc.commands.runner import find, run
    from tasc.options.references import expanded

    path = find(str(expanded(Path(options.recipe))))
    plan = read(path, options)
    folder = output_path("output", flags.output) or Path("tasc-out") / path.stem
    shows = {command.name: command.show for command in COMMANDS}
    results: dict[str, Any] = {}
    with show_progress() as progress:
        for name, step, done in run(plan, folder, force=flags.force, progress=progress, tell=note):
            results[name] = done.result
            state = "up to date" if done.reused else "done"
            note(f"{name}: {state} ({done.output})")
            if not flags.json:
                shows[step.command](done.result)
    if flags.json:
        print_json(results)
