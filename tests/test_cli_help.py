"""Help says all that was written for it."""

import os
import subprocess
import sys

import pytest
from click import unstyle
from tasc_cli.main import app
from typer.main import get_command

from tests.cli import tasc

COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


def words(text: str) -> str:
    return " ".join(unstyle(text).replace("│", " ").split())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_every_word_and_what_stands_for_an_option_left_out(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "400")
    shown = words(tasc(capsys, name, "--help")[1])
    for parameter in COMMANDS[name].params:
        for text in (parameter.help, getattr(parameter, "show_default", None)):
            if isinstance(text, str):
                assert words(text) in shown


@pytest.mark.parametrize(
    ("typed", "at", "offered"), [("tasc be", 1, "bench"), ("tasc bench --meth", 2, "--method")]
)
def test_a_shell_completes_commands_and_options(typed, at, offered):
    asked = {"_TASC_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(at)}
    found = subprocess.run(
        [sys.executable, "-c", "from tasc_cli.main import main; main()"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
    )
    assert found.stdout.split() == [offered]
