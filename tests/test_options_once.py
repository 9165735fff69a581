"""An option stands once: its name, default and help in one class, read by all that offer it."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, get_origin

import pytest
from click import unstyle
from tasc_cli._typed import typed

import tasc
from tasc.commands.registry import COMMANDS, STEPS
from tasc.errors import InputError
from tasc.options.command import StepOptions
from tests.cli import COMMANDS as TYPED
from tests.cli import modules_after, printed, refused
from tests.pico import make_base
from tests.recipes import ROWS, write
from tests.trees import parsed, python_files

TREES = {path: parsed(path) for path in python_files("tasc", "cli")}
KINDS = {name: command.kind() for name, command in COMMANDS.items()}


def calls(name: str) -> list[tuple[Path, ast.Call]]:
    """Every call of a function by its last name, and the file it stands in."""
    return [
        (path, node)
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == name
    ]


def test_what_is_typed_for_a_newline_is_one_in_recipes_and_python_too():
    analyze = tasc.AnalyzeOptions(source={"path": "d", "template": "{input}\\n"})
    assert analyze.data.template == "{input}\n"
    assert tasc.AugmentOptions(source="d", tokenizer="t", protect=("\\n",)).protect == ("\n",)
    assert tasc.BenchOptions(source="d", models=("m",), delimiter="\\n").delimiter == "\n"


def test_an_older_name_of_an_option_works_in_python_in_recipes_and_on_the_command_line(capsys):
    old: Any = {"source": "d", "tokenizer": "t", "budget": 5}
    assert tasc.AugmentOptions(**old).new_tokens == 5
    assert tasc.AnalyzeOptions(**{"source": "d", "budgets": (1, 2)}).new_tokens == (1, 2)
    with pytest.raises(InputError, match="budget is an older name of new_tokens"):
        tasc.AugmentOptions(**old, new_tokens=6)
    given = ("augment", "missing.jsonl", "--tokenizer", "t", "--budget", "0")
    assert "new_tokens: got" in refused(capsys, *given)


MOST_OPTIONS = 323  # of all commands together, arguments included; it only falls


def test_commands_have_no_more_options_than_they_had():
    """A new option takes the place of an older one, or is a key of a method or an executor."""
    counts = {name: len(command.params) for name, command in TYPED.items()}
    assert sum(counts.values()) <= MOST_OPTIONS, counts


def test_no_help_text_is_written_twice():
    told = Counter(
        ast.unparse(keyword.value)
        for _, call in calls("Field")
        for keyword in call.keywords
        if keyword.arg == "description" and isinstance(keyword.value, ast.Constant | ast.JoinedStr)
    )
    assert len(told) > 60
    assert [text for text, count in told.items() if count > 1] == []


def test_only_what_is_no_option_of_the_library_is_declared_to_the_parser_by_hand():
    by_hand = {
        (
            path.name,
            call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else "",
        )
        for path, call in calls("Option")
    } - {("_typed.py", "")}
    assert by_hand == {
        ("_derive.py", ""),  # --output
        ("_derive.py", "--force"),
        ("_derive.py", "--json"),
        ("_derive.py", "--resume"),
        ("main.py", "--version"),
    }


def test_what_takes_the_options_of_a_command_takes_none_of_them_again():
    kinds = {KINDS[name].__name__: KINDS[name] for name in STEPS}
    checked = 0
    for path, tree in TREES.items():
        for node in (found for found in ast.walk(tree) if isinstance(found, ast.FunctionDef)):
            arguments = node.args.args
            defaults = [None] * (len(arguments) - len(node.args.defaults)) + node.args.defaults
            pairs = [*zip(arguments, defaults, strict=True)]
            pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            told = {ast.unparse(a.annotation).strip("\"'") for a, _ in pairs if a.annotation}
            for name in told & set(kinds):
                again = {a.arg for a, default in pairs if getattr(default, "value", None)}
                assert not again & set(kinds[name].model_fields), f"{path}: {node.name}"
                checked += 1
    assert checked > 20


def words(text: str) -> str:
    return " ".join(unstyle(text).replace("│", " ").split())


@pytest.mark.parametrize("command", KINDS)
def test_help_has_every_field_with_its_description_and_default(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "400")
    shown = words(printed(capsys, command, "--help"))
    for parameter in TYPED[command].params:
        for text in (parameter.help, getattr(parameter, "show_default", None)):
            assert not isinstance(text, str) or words(text) in shown
    fields = typed(KINDS[command])
    expected = set(KINDS[command].model_fields) - {"source"}
    assert {field.field for field in fields if not field.of_data} == expected
    assert not issubclass(KINDS[command], StepOptions) or any(field.of_data for field in fields)
    for field in fields:
        name = field.option if field.group == 0 else f"--{field.option}"
        several = field.group == 0 and get_origin(field.annotation) is tuple
        older = "".join(f",--{alias}" for alias in field.shell.aliases)
        assert f"{name}{older}{'...' if several else ''} " in shown
        assert field.help
        assert words(field.help) in shown
        assert "|".join(field.choices) in shown
        default = field.shell.default or field.shown
        if field.default not in (..., None, False, ()):
            default = ", ".join(map(str, default)) if isinstance(default, list) else default
            if default is True:
                default = field.option
            assert re.search(
                rf"{re.escape(name)}\b.*\[default: \(?{re.escape(str(default))}", shown
            )


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


def test_every_command_of_the_table_is_on_the_command_line_under_its_own_name():
    assert list(TYPED) == list(COMMANDS)
    assert {name: kind.command for name, kind in KINDS.items()} == {name: name for name in KINDS}


def test_help_of_a_command_loads_no_torch():
    loaded = modules_after(
        "from tasc.commands.registry import COMMANDS\n"
        "[command.kind() for name, command in COMMANDS.items() if name != 'compare']"
    )
    assert not loaded & {"torch", "transformers", "datasets"}


def test_a_command_is_a_call_that_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = str(make_base(tmp_path / "base"))
    for split in ("train", "validation"):
        write(tmp_path / f"{split}.jsonl", ROWS)
    task = str(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    found = tasc.analyze(tasc.AnalyzeOptions(source=task, tokenizer=base, new_tokens=(0, 2)))
    assert found.analysis.report.samples == 30
    made = tasc.augment(tasc.AugmentOptions(source=task, tokenizer=base, new_tokens=2))
    assert made.to_dict()["added"] == 2
    assert tasc.index(tasc.IndexOptions(source=task, tokenizer=base)).to_dict()["outputs"] == 30
    tuned = tasc.tune(tasc.TuneOptions(source=task, tokenizer=base))
    assert tuned.to_dict()["best"]["method"] == tuned.best.method
    short = {"source": task, "limit": 2, "max_new_tokens": 4, "warmup": 0}
    benched = tasc.bench(tasc.BenchOptions(models=(base,), split="validation", **short))
    assert [cell.method for cell in benched.cells] == ["ar", "tasc-spec"]
    compared = tasc.compare_vocabularies(
        tasc.VocabularyOptions(source=task, target=base, draft=base, prompts=1)
    )
    assert compared.to_dict()["algorithm"] == compared.algorithm
    assert sorted(tmp_path.rglob("*")) == before
    made.save(tmp_path)
    assert (tmp_path / "tokenizer.json").is_file()


def test_wrong_options_are_refused_in_one_line_that_names_them_all():
    with pytest.raises(tasc.errors.InputError) as caught:
        tasc.AugmentOptions(source="builtin:stdlib-tokens", new_tokens=0, n_max=99)  # type: ignore[call-arg]
    line = str(caught.value)
    assert line.startswith("tasc augment: ")
    assert all(name in line for name in ("tokenizer: missing", "new_tokens: ", "n_max: "))
    assert line.endswith("see tasc augment --help")
