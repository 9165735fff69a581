"""``tasc serve``: serve a model, or start an inference engine on an exported folder."""

import os
import shlex

from tasc.serving.options import ServeOptions
from tasc.serving.serve import check_server, command

from .._console import note
from .._derive import RunFlags


def run(options: ServeOptions, _flags: RunFlags) -> None:
    """Serve until a signal comes, or replace this process by the engine of an export."""
    if not options.is_export:
        check_server()
        from tasc.serving.http.run import serve

        serve(options, note)
        return
    words = command(options)
    note(shlex.join(words))
    os.chdir(options.folder)
    os.execvp(words[0], words)
