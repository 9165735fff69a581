"""Help shows every word that is written for it."""

import re

import pytest
import typer.main
from typer.testing import CliRunner

from cli.main import app

COMMANDS = sorted(typer.main.get_command(app).commands)


def words(text: str) -> str:
    """``text`` without its layout."""
    return re.sub(r"[\s│╭╮╰╯─]+", "", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_of_an_options_help_is_lost(name):
    # Square brackets would be taken for markup, and vanish.
    command = typer.main.get_command(app).commands[name]
    shown = words(CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "300"}).output)
    for parameter in command.params:
        written = getattr(parameter, "help", None)
        if written and parameter.name != "help":
            assert words(written) in shown
