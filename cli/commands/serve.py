"""``tasc serve``: start an inference engine on an exported folder."""

import os
import shlex

from tasc.serving.options import ServeOptions
from tasc.serving.serve import command

from .._console import note
from .._derive import RunFlags


def run(options: ServeOptions, _flags: RunFlags) -> None:
    """Replace this process by the engine."""
    words = command(options)
    note(shlex.join(words))
    os.chdir(options.folder)
    os.execvp(words[0], words)
