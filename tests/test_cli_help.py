"""Help says all that was written for it."""

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
