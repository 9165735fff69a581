"""Run commands: check the options, do the work, print the result."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, Literal

import typer

from tasc.commands.registry import COMMANDS, Command
from tasc.environment import shell_line
from tasc.errors import InputError

from ._console import note, print_json, say
from ._derive import RunFlags, register
from ._progress import show_progress

if TYPE_CHECKING:
    from tasc.commands.steps import Outcome
    from tasc.options.command import StepOptions

INTERRUPTED = 130  # 128 + SIGINT


def register_all(app: typer.Typer) -> None:
    """Register every command with ``app``, in the order of the table."""
    for command in COMMANDS.values():
        register(app, command.name, command.help, command.kind, partial(_run, command))


def module(name: str) -> Any:  # noqa: ANN401 - a module
    """Import the module that prints a command's result, or does all of its work."""
    return import_module(f".commands.{name}", __package__)


def _run(command: Command, options: "StepOptions", flags: RunFlags) -> None:
    if not command.report:  # it cannot be a step; its module does all the work
        module(command.name).run(options, flags)
        return
    from tasc.commands.context import at_work
    from tasc.commands.steps import run_step
    from tasc.environment import launched
    from tasc.files.artefact import check_output
    from tasc.files.resume import work_of

    if options.spec.distributed and launched()[0]:
        with at_work(options, None) as context:  # the launcher's first process writes the output
            command.function()(options, context)
        return
    folder = output_folder(flags, command.name)
    check_output(folder, force=flags.force)
    resume: bool | Literal["only"] = "only" if flags.resume else "resume" not in options.flags
    resuming = resumable(work_of(folder).exists, "a checkpoint is saved", "--resume")
    with resuming, show_progress() as progress:
        done = run_step(
            options, folder, force=flags.force, resume=resume, progress=progress, tell=note
        )
    if flags.json:
        print_json(done.report.to_dict())
    else:
        _show(command, options, done)


def _show(command: Command, options: "StepOptions", done: "Outcome") -> None:
    """Print the result of a step, where its files are, and the command to run next."""
    from ._next import next_command

    module(command.name).show(done.report)
    for label, path in command.files:
        if (done.output / path).exists():
            say(f"{label}: {done.output / path}")
    if following := next_command(options, done.output, done.report):
        say(f"Next: {following}")


@contextmanager
def resumable(can_resume: Callable[[], bool], what: str, option: str = "") -> Iterator[None]:
    """End an interrupted block with the command that resumes it, if ``can_resume()``."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        clear_frames(interrupt.__traceback__)  # a block that captures stderr may wait in one
        if not can_resume():
            raise
        line = shell_line()
        line += f" {option}" if option and option not in line else ""
        note(f"interrupted: {what}; resume with {line}")
        raise SystemExit(INTERRUPTED) from None


def output_folder(flags: RunFlags, name: str) -> Path:
    """Return the folder given with --output, or tasc-out/NAME. Raises InputError if it is empty."""
    from tasc.options.references import expanded

    if flags.output is None:
        return Path("tasc-out") / name
    if not flags.output.strip():
        raise InputError("--output is empty: give a folder, or drop --output")
    return expanded(Path(flags.output))
