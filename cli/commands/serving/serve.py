"""``tasc serve``: start the engine a folder was exported for, instead of this process."""

import os
import shlex
from typing import TYPE_CHECKING

import typer

from ..._console import note
from ..._derive import RunFlags, class_at
from ..._derive import register as register_derived

if TYPE_CHECKING:
    from tasc.serving.options import ServeOptions


def register(app: typer.Typer) -> None:
    """Make it a command of ``app``."""
    told = "Start the installed engine on a folder of tasc export, for this machine alone."
    register_derived(app, "serve", told, class_at("tasc.serving.options:ServeOptions"), _run)


def _run(options: "ServeOptions", _flags: RunFlags) -> None:
    from tasc.serving.serve import command

    words = command(options)
    note(shlex.join(words))
    os.chdir(options.folder)
    os.execvp(words[0], words)
