"""``tasc serve``: start the engine a folder was exported for, instead of this process."""

import os
import shlex
from typing import TYPE_CHECKING, Any

import typer

from ..._console import note
from ..._derive import RunFlags
from ..._derive import register as register_derived

if TYPE_CHECKING:
    from tasc.options.command import CommandOptions


def register(app: typer.Typer) -> None:
    """Make it a command of ``app``."""
    told = "Start the installed engine on a folder of tasc export, for this machine alone."
    register_derived(app, "serve", told, _kind, _run)


def _kind() -> "type[CommandOptions]":
    from tasc.serving.options import ServeOptions

    return ServeOptions


def _run(options: dict[str, Any], _door: RunFlags) -> None:
    from tasc.serving.options import ServeOptions
    from tasc.serving.serve import command

    checked = ServeOptions(**options)
    words = command(checked)
    note(shlex.join(words))
    os.chdir(checked.folder)
    os.execvp(words[0], words)
