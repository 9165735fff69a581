"""``tasc serve``: start an inference engine on an exported folder."""

import os
import shlex
from typing import TYPE_CHECKING

from .._console import note
from .._derive import RunFlags

if TYPE_CHECKING:
    from tasc.serving.options import ServeOptions


def run(options: "ServeOptions", _flags: RunFlags) -> None:
    """Replace this process by the engine."""
    from tasc.serving.serve import command

    words = command(options)
    note(shlex.join(words))
    os.chdir(options.folder)
    os.execvp(words[0], words)
