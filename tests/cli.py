"""Run the command line, in this process or, to see what it loads, in another."""

import json
import subprocess
import sys
from typing import Any

from tasc_cli import _progress
from tasc_cli.main import main

from tests.campaign.verdict import ends_in_an_order

_progress.LINE_EVERY_S = 3600  # a slow run prints lines of progress, which tests do not compare


def tasc(capsys: Any, *arguments: object) -> tuple[int, str, str]:
    """Run ``tasc`` with ``arguments``; return its exit code, stdout, and stderr."""
    capsys.readouterr()
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    if code == 2:  # each error ends with an action
        assert ends_in_an_order(err), f"no action: {err}"
    return code, out, err


def done(capsys: Any, *arguments: object) -> Any:
    """Run a command with --json; return what it printed: JSON and nothing else."""
    code, out, err = tasc(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def assert_loads_no_torch(*arguments: object) -> None:
    """Run a command in a process of its own, which must end well and without torch."""
    code = (
        "import sys; from tasc_cli.main import app; "
        f"app({[str(a) for a in arguments]}, standalone_mode=False); "
        "sys.exit('loaded torch' if 'torch' in sys.modules else 0)"
    )
    ran = [sys.executable, "-c", code]
    finished = subprocess.run(ran, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
