"""No number of any option is larger, smaller or stranger than a machine can bear."""

from dataclasses import fields
from typing import Any, get_args

import pytest

from tasc.commands.registry import STEPS, step_options
from tasc.decoding.drafters import DRAFTERS, parse
from tasc.errors import InputError
from tests.cli import COMMANDS, refused

GIVEN: dict[str, Any] = {  # what must be there before a number is looked at
    "source": {"path": "task.jsonl"},
    "tokenizer": "t",
    "model": "m",
    "models": ["m"],
    "endpoints": ["http://127.0.0.1"],
    "endpoint": "http://127.0.0.1",
    "results": "r",
    "target": "t",
    "draft": "d",
    "to": "transformers",
    "temperature": 1.0,
}
NUMBERS = (10**40, -(10**40), 1e308, float("nan"), float("inf"), "9" * 40, "inf", True)


def numeric(annotation: Any) -> bool:
    """Say whether an int or a float is somewhere in an annotation."""
    return annotation in (int, float) or any(map(numeric, get_args(annotation)))


FIELDS = [
    (command, name, get_args(field.annotation)[-1:] == (...,))
    for command in STEPS
    for name, field in step_options(command).model_fields.items()
    if numeric(field.annotation)
]


@pytest.mark.parametrize(("command", "name", "several"), FIELDS)
def test_a_number_out_of_bounds_is_refused_by_its_name(command, name, several):
    kind = step_options(command)
    given = {key: held for key, held in GIVEN.items() if key in kind.model_fields}
    kind(**given)
    for value in NUMBERS:
        with pytest.raises(InputError) as caught:
            kind(**given | {name: [value] if several else value})
        line = str(caught.value)
        assert name in line
        assert "\n" not in line


OPTIONS = [
    (name, option.name.rstrip("_"))
    for name, entry in DRAFTERS.items()
    for option in fields(entry.options)
    if type(option.default) in (int, float)
] + [(name, "budget") for name, entry in DRAFTERS.items() if entry.budget is not None]


@pytest.mark.parametrize(("method", "option"), OPTIONS)
def test_a_number_of_a_method_out_of_bounds_is_refused_by_its_name(method, option):
    for value in ("9" * 23, "-" + "9" * 23, "1e308", "nan", "inf", "true", "", "²"):
        with pytest.raises(InputError, match=option) as caught:
            parse(f"{method}:{option}={value}")
        assert f"method '{method}:" in str(caught.value)


OFFERED = {name: {o for p in command.params for o in p.opts} for name, command in COMMANDS.items()}
NUMERIC = [name for name in COMMANDS if name not in {"doctor", "report"}]  # which have no numbers


def shortest(command: str) -> list[str]:
    arguments = [p for p in COMMANDS[command].params if p.param_type_name == "argument"]
    given = {f"--{name}": str(value) for name, value in GIVEN.items()}
    options = [f"{name}={value}" for name, value in given.items() if name in OFFERED[command]]
    return [command, *["quickstart" if command == "run" else "x" for _ in arguments], *options]


@pytest.mark.parametrize("value", ["9" * 40, "-" + "9" * 40, "nan"])
@pytest.mark.parametrize("command", NUMERIC)
def test_no_numeric_option_of_a_command_takes_everything(
    capsys, tmp_path, monkeypatch, command, value
):
    monkeypatch.chdir(tmp_path)
    tried = [p for p in COMMANDS[command].params if numeric(p.type_descriptor.annotation)]
    for parameter in tried:
        line = refused(capsys, *shortest(command), parameter.opts[0], value)
        assert parameter.name.replace("_", "-") in line.replace("_", "-")
    assert tried


NO_OUTPUT = {"compare", "data", "doctor", "init", "serve"}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in NO_OUTPUT])
def test_an_empty_output_is_no_folder(capsys, command):
    line = refused(capsys, *shortest(command), "--output", " ")
    assert line == "error: --output is empty: give a folder, or drop --output\n"
