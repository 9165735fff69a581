"""A command that is a step: its options checked, its artefact made, its result shown."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ._console import note, print_json, say
from ._derive import RunFlags, register
from ._progress import show_progress

if TYPE_CHECKING:
    from tasc.commands.steps import Outcome
    from tasc.options.command import StepOptions


@dataclass(frozen=True)
class Command:
    """A command of the library."""

    name: str  # by which its options are found
    help: str  # what it does
    show: Callable[[Any], None]  # prints its report
    # What to name of the artefact, where it is there: (label, path) each.
    leaves: tuple[tuple[str, str], ...]
    # Returns the next command line from options, folder and report; empty for none.
    next: "Callable[[Any, Path, Any], str] | None" = None

    def register(self, app: typer.Typer) -> None:
        """Make it a command of ``app``."""
        register(app, self.name, self.help, self._kind, self._run)

    def _kind(self) -> "type[StepOptions]":
        from tasc.commands.registry import COMMANDS

        return COMMANDS[self.name]

    def _run(self, options: "StepOptions", flags: RunFlags) -> None:
        from tasc.environment import launched
        from tasc.files.artefact import check_output

        if options.shared and launched()[0]:
            _follow(options)
            return
        folder = output_path("output", flags.output) or Path("tasc-out") / self.name
        if flags.push_to_hub is not None:
            _check_push(options, flags.push_to_hub)
        check_output(folder, force=flags.force)
        done = _run_step(options, folder, flags)
        pushed = _push(done.output / "model", flags.push_to_hub)
        if flags.json:
            print_json(done.report.to_dict())
            return
        self.show(done.report)
        for label, path in self.leaves:
            if (done.output / path).exists():
                say(f"{label}: {done.output / path}")
        if pushed:
            say(f"on the Hub: {pushed}")
        following = self.next and self.next(options, done.output, done.report)
        if following:
            say(f"Next: {following}")


def _follow(options: "StepOptions") -> None:
    """Do a share of what another process, which a launcher has started, makes an artefact of."""
    from tasc.commands.calls import RUNNERS
    from tasc.commands.context import at_work

    with at_work(options, None) as context:
        RUNNERS[options.command](options, context)


def _run_step(options: "StepOptions", folder: Path, flags: RunFlags) -> "Outcome":
    from tasc.commands.steps import run_step
    from tasc.files.resume import work_of

    try:
        with show_progress() as progress:
            return run_step(
                options,
                folder,
                force=flags.force,
                resume="only" if flags.resume and "resume" in options.flags else flags.resume,
                progress=progress,
                tell=note,
            )
    except KeyboardInterrupt:
        if work_of(folder).exists():
            note("a checkpoint was kept: the same command with --resume goes on")
        raise


def _check_push(options: "StepOptions", repository: str) -> None:
    from tasc.errors import InputError
    from tasc.models.folder.push import check_repository

    if "model" not in options.makes:
        raise InputError("--push-to-hub takes a plain model: add --merge, or leave it out")
    check_repository(repository)


def _push(model: Path, repository: str | None) -> str:
    """Push a model folder that is whole; return where it is then."""
    if repository is None:
        return ""
    from tasc.models.folder.push import push

    return push(model, repository)


def output_path(option: str, text: str | None) -> Path | None:
    """Return the folder that an option names, None where left out; refuse an empty one."""
    from tasc.errors import InputError
    from tasc.options.references import expanded

    if text is None:
        return None
    if not text.strip():
        raise InputError(f"--{option} is empty: name a folder, or leave --{option} out")
    return expanded(Path(text))
