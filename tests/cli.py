"""Run the command line, in this process or, to see what it loads, in another."""

import json
import subprocess
import sys
from typing import Any

from tasc_cli import _progress
from tasc_cli.main import app, main
from typer.main import get_command

from tests.campaign.verdict import ends_in_an_order

COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
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


def refused(capsys: Any, *arguments: object) -> str:
    """Run a command that must fail and print one line; return the line."""
    code, out, err = tasc(capsys, *arguments)
    assert (code, out) == (2, ""), err
    assert err.startswith("error: ")
    assert err.count("\n") == 1, err
    return err


def printed(capsys: Any, *arguments: object) -> str:
    """Run a command that must succeed; return what it prints on stdout."""
    code, out, err = tasc(capsys, *arguments)
    assert code == 0, err
    return out


def done(capsys: Any, *arguments: object) -> Any:
    """Run a command with --json; return what it printed: JSON and nothing else."""
    return json.loads(printed(capsys, *arguments, "--json"))


def modules_after(code: str) -> set[str]:
    """Run Python in a process of its own, which must end well; return the modules it has loaded."""
    ran = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    finished = subprocess.run(ran, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return {*finished.stdout.splitlines()[-1].split()}


def assert_loads_no_torch(*arguments: object) -> None:
    """Run a command in a process of its own, which must end well and without torch."""
    given = [str(a) for a in arguments]
    code = f"from tasc_cli.main import app; app({given}, standalone_mode=False)"
    assert "torch" not in modules_after(code)
