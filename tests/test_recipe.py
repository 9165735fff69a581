"""What a recipe may say."""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tasc.commands.plan import Overrides, read
from tasc.errors import RecipeError
from tests.cli import tasc
from tests.pico import make_tokenizer
from tests.recipes import HEAD, ROWS, write, write_splits


def refused(tmp_path: Path, steps: str) -> str:
    """Read a recipe that must not be run; return the one line that the user sees."""
    path = tmp_path / "r.yaml"
    path.write_text(HEAD + steps)
    with pytest.raises(RecipeError) as caught:
        read(path, Overrides())
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_a_recipe_without_steps_is_refused(tmp_path):
    assert "steps: dictionary should have at least 1 item" in refused(tmp_path, "  {}\n")


def test_a_step_that_is_there_twice_is_refused(tmp_path):
    step = "  a: {command: augment, tokenizer: t, new_tokens: 2}\n"
    assert "the key 'a' is there twice" in refused(tmp_path, step + step)


@pytest.mark.parametrize("name", ["later", "self"])
def test_a_step_may_only_name_an_earlier_one(tmp_path, name):
    line = refused(
        tmp_path,
        f"  self: {{command: index, tokenizer: {name}}}\n"
        "  later: {command: augment, tokenizer: t}\n",
    )
    assert f"step self: tokenizer: {name} is no earlier step" in line
    line = refused(
        tmp_path,
        f"  self: {{command: bench, models: [gpt2, label={name}]}}\n"
        "  later: {command: augment, tokenizer: t}\n",
    )
    assert f"step self: models: {name} is no earlier step" in line


@pytest.mark.parametrize("name", ["''", ".", "..", "../up", "a/b", "a=b"])
def test_a_step_is_named_as_a_folder_can_be(tmp_path, name):
    line = refused(tmp_path, f"  {name}: {{command: augment, tokenizer: t}}\n")
    assert "a step's name" in line


BOMB = "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghijk"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [x]\n" + BOMB, "more than 10,000 keys and values"),
        ("a: &a {x: 1}\n" + BOMB.replace("[", "{<<: [").replace("]", "]}"), "10,000 keys"),
        ("name: " + "[" * 50_000, "more than 20 levels"),
        ("name: " + "{a: " * 20_000, "more than 20 levels"),
        ("\n".join(" " * i + "a:" for i in range(300)), "more than 20 levels"),
        ("a: &a [*a]\n", "more than 20 levels"),
        ("a: *b\n", "found undefined alias"),
        ("name: " + "x" * 200_000, "larger than 100,000 bytes"),
        ("name: " + "9" * 5000, "not a readable YAML file"),
        ("name: 2024-13-45\n", "not a readable YAML file"),
        ("name: !!python/object/apply:os.system [ls]\n", "not a readable YAML file"),
        ("? [a]\n: b\n", "not a readable YAML file"),
        ("name: a\n---\nname: b\n", "not a readable YAML file"),
        ("name: \x1b[31m\n", "not a readable YAML file"),
        ("1: 2\nnull: 3\n", "eys should be strings"),
        ("name: on\n", "name: got true or false (on, yes, no): give a value"),
        ("", "does not hold the keys"),
    ],
    ids=range(17),
)
def test_no_file_harms_its_reader(tmp_path, text, said):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    started = time.perf_counter()
    with pytest.raises(RecipeError) as caught:
        read(path, Overrides())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - started < 3


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("  a: [1]\n  b: 3\n", ["steps.a: input should be a valid dict", "steps.b: input should"]),
        ("  1: {command: analyze}\n", ["steps.1.[key]: input should be a valid string"]),
        ("  a: {1: 2, command: analyze}\n", ["step a: 1: keys should be strings"]),
        ("  a: {command: analyze, limit: true}\n", ["step a: limit: got true or false"]),
        ("  a: {command: analyze, budgets: [1, on]}\n", ["step a: new_tokens: got true or false"]),
        ("  a: {command: analyze, seed: 1, seed: 2}\n", ["'seed' is there twice"]),
        ('  a: {command: analyze, split: "a\\0"}\n', ["contains an invalid character"]),
        ('  "a\\e": {command: analyze}\n', ["a step's name"]),
        (f"  {'a' * 300}: {{command: analyze}}\n", ["a step's name"]),
        ("  ~a: {command: analyze}\n  .b: {command: analyze}\n", ["'~a'", "'.b'"]),
        (
            "  a: {command: bench, models: [x], methods: [arr, 'suffix:n=1', 'ar'],"
            " metrics: [bleu]}\n",
            ["unknown method 'arr'", "unknown option 'n'", "unknown metric 'bleu'"],
        ),
        ("  a: {command: bench, models: [x], methods: [ar, ar]}\n", ["given twice"]),
        ("  a: {command: bench, models: [x], methods: [eagle]}\n", ["with --draft-head"]),
        ("  a: {command: bench, models: [x], verify: exactly}\n", ["verify: input should be"]),
        ("  a: {command: index, tokenizer: /no/such}\n", ["/no/such: no such file or folder"]),
        ("  a: {command: index, tokenizer: t, source: {path: x, template: none}}\n", ["no column"]),
        (
            "  a: {command: analyze, split: tset}\n"
            "  b: {command: bench, models: [x], corpus_split: trian}\n",
            ["no split 'tset'", "no split 'trian'"],
        ),
        (
            "  a: {command: analyze, source: {path: 'builtin:no'}}\n"
            "  b: {command: analyze, source: {path: task, input_column: none}}\n",
            ["builtin:no: no such built-in task", "no column 'none'"],
        ),
        (
            "  base: {command: base}\n"
            "  tokens: {command: augment, tokenizer: bse}\n"
            "  near: {command: augment, tokenizer: smollm}\n"
            "  head: {command: finetune, model: tokens, draft_head: true}\n"
            "  tuned: {command: finetune, model: base, augmented: base}\n"
            "  bench: {command: bench, models: [x=tuned, head], indexes: [base],"
            " draft_head: tuned, token_counts: tokens}\n",
            [
                "step tokens: tokenizer: bse is no earlier step: name base",
                "step near: tokenizer: smollm is no earlier step: name smollm2, or OWNER/NAME",
                "step head: model: tokens leaves no model but new tokens, tokenizer",
                "step tuned: augmented: base leaves no new tokens but model, tokenizer",
                "step bench: models: tuned leaves no model but tokenizer, training report (with",
                "step bench: models: head leaves no model but draft head",
                "step bench: indexes: base leaves no index",
                "step bench: draft_head: tuned leaves no draft head",
                "step bench: token_counts: tokens leaves no token counts",
            ],
        ),
    ],
    ids=range(19),
)
def test_a_recipe_is_checked_whole_before_its_first_step(capsys, tmp_path, steps, said):
    write_splits(tmp_path / "task", ROWS)
    (tmp_path / "r.yaml").write_text(HEAD + steps)
    given = ("run", tmp_path / "r.yaml", "--data-dir", tmp_path, "--output", tmp_path / "out")
    code, out, err = tasc(capsys, *given)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for words in said:
        assert words in err
    assert not (tmp_path / "out").exists()


def test_the_top_level_and_the_steps_are_told_of_together(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("steps:\n  a: {command: fly}\n  b: {command: analyze, limit: 0}\n")
    with pytest.raises(RecipeError) as caught:
        read(path, Overrides())
    for words in ("name: missing", "data: missing", "step a: command must", "step b: limit:"):
        assert words in str(caught.value)


def test_a_step_that_cannot_be_written_stops_the_first_one(capsys, tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    tokens, out = make_tokenizer(tmp_path / "tok"), tmp_path / "out"
    step = f"{{command: index, tokenizer: {tokens}}}\n"
    (tmp_path / "r.yaml").write_text(HEAD + f"  a: {step}  b: {step}")
    (out / "b").mkdir(parents=True)
    (out / "b" / "mine").write_text("keep")
    code, _, err = tasc(capsys, "run", tmp_path / "r.yaml", "--data-dir", tmp_path, "--output", out)
    assert code == 2
    assert "holds files tasc did not write" in err
    assert not (out / "a").exists()


def test_a_number_may_be_written_as_text(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(HEAD + "  a: {command: base, limit: '3', learning_rate: 1e-3}\n")
    step: Any = read(path, Overrides()).steps["a"]
    assert (step.limit, step.learning_rate) == (3, 1e-3)


def test_a_command_that_is_no_word_is_refused(tmp_path):
    assert "command must be one of" in refused(tmp_path, "  a: {command: [augment]}\n")
