"""What a recipe may say."""

from itertools import pairwise
from typing import Any

import pytest

from tasc.commands.plan import RunOptions, read
from tasc.errors import RecipeError
from tests.bounds import bounded_work
from tests.cli import refused
from tests.pico import make_tokenizer
from tests.recipes import ROWS, write, write_recipe, write_splits

NO_NAMES = ("''", ".", "..", "../up", "a/b", "a=b", '"a\\e"', "a" * 300)
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
    with bounded_work(), pytest.raises(RecipeError) as caught:
        read(path, RunOptions())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("  {}\n", ["steps: dictionary should have at least 1 item"]),
        ("  a: {command: index, tokenizer: t}\n" * 2, ["the key 'a' is there twice"]),
        ("  a: {command: [augment]}\n", ["command must be one of"]),
        (
            "  a: {command: index, tokenizer: a}\n"
            "  b: {command: index, tokenizer: later}\n"
            "  c: {command: bench, models: [gpt2, label=c]}\n"
            "  d: {command: bench, models: [gpt2, label=later]}\n"
            "  later: {command: augment, tokenizer: t}\n",
            [
                "step a: tokenizer: a is no earlier step",
                "step b: tokenizer: later is no earlier step",
                "step c: models: c is no earlier step",
                "step d: models: later is no earlier step",
            ],
        ),
        *((f"  {name}: {{command: analyze}}\n", ["a step's name"]) for name in NO_NAMES),
        ("  a: [1]\n  b: 3\n", ["steps.a: input should be a valid dict", "steps.b: input should"]),
        ("  1: {command: analyze}\n", ["steps.1.[key]: input should be a valid string"]),
        ("  a: {1: 2, command: analyze}\n", ["step a: 1: keys should be strings"]),
        ("  a: {command: analyze, limit: true}\n", ["step a: limit: got true or false"]),
        ("  a: {command: analyze, budgets: [1, on]}\n", ["step a: new_tokens: got true or false"]),
        ("  a: {command: analyze, seed: 1, seed: 2}\n", ["'seed' is there twice"]),
        ('  a: {command: analyze, split: "a\\0"}\n', ["contains an invalid character"]),
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
    ids=range(29),
)
def test_a_recipe_is_checked_whole_before_its_first_step(capsys, tmp_path, steps, said):
    write_splits(tmp_path / "task", ROWS)
    given = ("run", write_recipe(tmp_path, steps), "--data-dir", tmp_path)
    for more in (("--output", tmp_path / "out"), ("--dry-run",)):
        line = refused(capsys, *given, *more)
        assert [words for words in said if words not in line] == []
        assert line.endswith("correct the recipe\n")
    assert not (tmp_path / "out").exists()


def test_the_top_level_and_the_steps_are_told_of_together(capsys, tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("steps:\n  a: {command: fly}\n  b: {command: analyze, limit: 0}\n")
    line = refused(capsys, "run", path)
    for words in ("name: missing", "data: missing", "step a: command must", "step b: limit:"):
        assert words in line


def test_a_step_that_cannot_be_written_stops_the_first_one(capsys, tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    tokens, out = make_tokenizer(tmp_path / "tok"), tmp_path / "out"
    step = f"{{command: index, tokenizer: {tokens}}}\n"
    recipe = write_recipe(tmp_path, f"  a: {step}  b: {step}")
    (out / "b").mkdir(parents=True)
    (out / "b" / "mine").write_text("keep")
    line = refused(capsys, "run", recipe, "--data-dir", tmp_path, "--output", out)
    assert "holds files tasc did not write" in line
    assert not (out / "a").exists()


def test_a_number_may_be_written_as_text(tmp_path):
    recipe = write_recipe(tmp_path, "  a: {command: base, limit: '3', learning_rate: 1e-3}\n")
    step: Any = read(recipe, RunOptions()).steps["a"]
    assert (step.limit, step.learning_rate) == (3, 1e-3)


def test_a_recipe_cannot_connect_to_a_cluster(capsys, tmp_path):
    step = "command: tune, tokenizer: t, executor: 'ray:address=10.0.0.1:6379'"
    error = refused(capsys, "run", write_recipe(tmp_path, f"  away: {{{step}}}\n"))
    assert "the address of a cluster is no recipe's to give: run tasc tune by hand" in error
