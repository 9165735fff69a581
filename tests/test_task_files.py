"""Task files: data, columns, template, splits and defaults in one YAML file."""

import json
from pathlib import Path
from typing import Any

import pytest

import tasc
from tasc.commands.plan import Plan, RunOptions, read
from tests.cli import done, printed, refused
from tests.pico import make_tokenizer
from tests.recipes import write

ROWS = [{"q": f"number {i}", "a": f"value {i % 3}; {i % 2}", "c": "note"} for i in range(30)]
TASK = """\
path: mine
input_column: q
output_column: a
template: "{c}: {input}\\n"
splits: {test: validation}
metrics: [micro_f1]
delimiter: "; "
max_new_tokens: 33
"""


@pytest.fixture(autouse=True)
def task(tmp_path, monkeypatch) -> str:
    """A task file in a folder below the working directory, with its data beside it."""
    monkeypatch.chdir(tmp_path)
    for split in ("train", "validation"):
        write(Path("tasks/mine") / f"{split}.jsonl", ROWS)
    Path("tasks/task.yaml").write_text(TASK)
    return "tasks/task.yaml"


def test_a_task_file_gives_data_splits_and_defaults(task):
    options = tasc.BenchOptions(source=task, models=("m",))
    assert options.data.path == "tasks/mine"
    assert options.data.source().prompt("x", {"c": "y"}) == "y: x\n"
    assert (options.split, options.corpus_split) == ("validation", "train")
    assert (options.metrics, options.delimiter) == (("micro_f1",), "; ")
    assert options.max_new_tokens == 33
    assert tasc.FinetuneOptions(source=task, model="m").max_new_tokens == 256
    assert tasc.AugmentOptions(source=task, tokenizer="t").split == "train"


def test_values_given_to_a_command_win_over_the_file(task):
    source = {"path": task, "template": "{input}"}
    given = {"metrics": ("exact_match",), "split": "train"}
    options = tasc.BenchOptions(source=source, models=("m",), **given)
    assert (options.data.template, options.data.input_column) == ("{input}", "q")
    assert (options.metrics, options.split, options.max_new_tokens) == (
        ("exact_match",),
        "train",
        33,
    )
    assert options.but(seed=1).delimiter == "; "


def test_every_command_line_takes_it_and_goes_on_with_it(capsys, task):
    tokenizer = make_tokenizer(Path("tokenizer"))
    found = done(capsys, "data", task, "--tokenizer", tokenizer, "--template", "{c} {input}")
    assert (found["path"], found["max_new_tokens"]) == ("tasks/mine", 33)
    assert "".join(token["text"] for token in found["samples"][0]["tokens"]).startswith("note ")
    given = ("--tokenizer", tokenizer, "--new-tokens", 2, "--template", "{input}")
    out = printed(capsys, "augment", task, *given, "--output", "tokens")
    assert f"Next: tasc finetune {task} " in out
    assert out.rstrip().endswith("--template '{input}'")
    manifest = json.loads(Path("tokens/manifest.json").read_text())
    assert manifest["arguments"]["source"]["path"] == "tasks/mine"
    assert done(capsys, "vocab", tokenizer, tokenizer, "--data", task, "--output", "vocab")


def plan_of(recipe: str) -> Plan:
    path = Path("tasks/r.yaml")
    path.write_text(f"name: x\ndescription: y\n{recipe}")
    return read(path, RunOptions(data_dir=Path("tasks")))


@pytest.mark.parametrize("data", ["data: task.yaml", "data: {path: task.yaml, template: '{q}'}"])
def test_a_recipe_refers_to_one_in_its_own_folder(data):
    other = "{path: mine/train.jsonl, input_column: q, output_column: a}"
    bench = "{command: bench, models: [gpt2]"
    steps = f"steps:\n  b: {bench}}}\n  d: {bench}, source: {other}, split: train}}\n"
    plan = plan_of(f"{data}\n{steps}")
    step, other_step = plan.steps["b"], plan.steps["d"]
    assert (step.data.path, step.split) == ("tasks/mine", "validation")
    assert step.data.template == ("{q}" if "template" in data else "{c}: {input}\n")
    assert other_step.model_fields_set.isdisjoint({"metrics", "delimiter", "max_new_tokens"})


def test_paths_in_a_recipe_are_those_in_its_folder_else_in_the_current_one():
    for path in ("tasks/base", "base", "other"):
        make_tokenizer(Path(path))
    Path("tasks/labels.txt").write_text("a\n")
    data = f"{{{', '.join(TASK.splitlines())}, choices: labels.txt}}"
    steps = "i: {command: index, tokenizer: base}, o: {command: index, tokenizer: other}"
    bench = "{command: bench, models: [x=base], indexes: [i]}"
    given = plan_of(f"data: {data}\nsteps: {{{steps}, b: {bench}}}\n")
    plans: list[Any] = [given, read(Path("tasks/r.yaml"), RunOptions())]
    for found in (plan.steps for plan in plans):
        assert (found["i"].tokenizer, found["o"].tokenizer) == ("tasks/base", "other")
        assert (found["b"].models, found["b"].indexes) == (("x=tasks/base",), ("i",))
        assert (found["b"].data.path, found["b"].choices) == ("tasks/mine", "tasks/labels.txt")
        assert found["b"].split == "validation"


def test_data_are_found_beside_the_file_else_taken_as_written(task):
    for path, expected in (
        ("mine", "tasks/mine"),
        ("absent.jsonl", "tasks/absent.jsonl"),
        ("./absent", "tasks/absent"),
        ("openai/gsm8k", "openai/gsm8k"),
        ("builtin:stdlib-docs", "builtin:stdlib-docs"),
        ("/data/x", "/data/x"),
    ):
        Path(task).write_text(f"path: {path}\n")
        assert tasc.AnalyzeOptions(source=task).data.path == expected


def test_data_that_are_not_here_are_found_below_the_folder_in_the_environment(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("TASC_DATA", str(tmp_path / "tasks"))
    for path, found in (("mine", tmp_path / "tasks/mine"), ("tasks", "tasks"), ("a/b", "a/b")):
        assert tasc.AnalyzeOptions(source=path).data.source().path == str(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path: mine\ntamplate: x\n", "unknown key 'tamplate': use one of path, input_column"),
        ("path: mine\n1: x\n", "unknown key '1': use one of"),
        ("input_column: q\n", "has no data: add the key path"),
        ("- mine\n", "has no data"),
        ("path: other.yaml\n", "path 'other.yaml' is another task file: give the data"),
        ("path: mine\npath: mine\n", "the key 'path' appears twice"),
        ("path: mine\nmax_new_tokens: many\n", "max_new_tokens: input should be a valid integer"),
        ("path: mine\nsplits: {dev: x}\n", "splits"),
        ("path: mine\ntemplate: '{input.x}'\n", "the template '{input.x}'"),
        ("path: !!python/object/apply:os.system [ls]\n", "not a readable YAML file"),
        ("path: " + "x" * 200_000, "larger than 100,000 bytes"),
    ],
)
def test_a_wrong_task_file_is_refused_with_what_to_write(capsys, task, text, message):
    Path(task).write_text(text)
    line = refused(capsys, "analyze", task)
    assert line.startswith(f"error: tasc analyze: {task}")
    assert message in line


def test_a_missing_task_file_and_a_wrong_metric_are_refused(capsys, task):
    assert "absent.yaml: no such task file" in refused(capsys, "analyze", "absent.yaml")
    Path(task).write_text("path: mine\nmetrics: [exakt]\n")
    assert "exakt" in refused(capsys, "bench", task, "--model", "m")
    recipe = "name: x\ndescription: y\ndata: absent.yaml\nsteps:\n  b: {command: analyze}\n"
    Path("r.yaml").write_text(recipe)
    assert "absent.yaml" in refused(capsys, "run", "r.yaml", "--dry-run")
