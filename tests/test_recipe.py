"""What a recipe may say, and when a step is done again."""

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tasc.analysis.options import AnalyzeOptions
from tasc.commands.plan import Overrides, read
from tasc.commands.steps import run_step
from tasc.decoding.drafters.ngram.options import IndexOptions
from tasc.errors import InputError, RecipeError
from tasc.options.command import Data
from tasc.vocab.search.options import AugmentOptions
from tests.cli import tasc
from tests.pico import make_tokenizer

HEAD = "name: x\ndescription: y\ndata: {path: task}\nsteps:\n"
ROWS = [{"input": f"number {i}", "output": f"value {i % 3} and {i % 3}"} for i in range(30)]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


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
    step = "  a: {command: augment, tokenizer: t, budget: 2}\n"
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
        ("a: &a [*a]\n", "stands before what it is"),
        ("a: *b\n", "stands before what it is"),
        ("name: " + "x" * 200_000, "larger than 100,000 bytes"),
        ("name: " + "9" * 5000, "not a readable YAML file"),
        ("name: 2024-13-45\n", "not a readable YAML file"),
        ("name: !!python/object/apply:os.system [ls]\n", "not a readable YAML file"),
        ("? [a]\n: b\n", "not a readable YAML file"),
        ("name: a\n---\nname: b\n", "not a readable YAML file"),
        ("name: \x1b[31m\n", "not a readable YAML file"),
        ("1: 2\nnull: 3\n", "eys should be strings"),
        ("name: on\n", "name: true and false (on, yes, no) are for switches"),
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
        ("  a: {command: analyze, limit: true}\n", ["step a: limit: true and false"]),
        ("  a: {command: analyze, budgets: [1, on]}\n", ["step a: budgets: true and false"]),
        ("  a: {command: analyze, seed: 1, seed: 2}\n", ["'seed' is there twice"]),
        ('  a: {command: analyze, split: "a\\0"}\n', ["holds what is no character"]),
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
            "  head: {command: finetune, model: tokens, draft_head: true}\n"
            "  tuned: {command: finetune, model: base, augmented: base}\n"
            "  bench: {command: bench, models: [x=tuned, head], indexes: [base],"
            " draft_heads: [tuned], token_counts: tokens}\n",
            [
                "step tokens: tokenizer: bse is no earlier step: name base",
                "step head: model: tokens leaves no model but new tokens, tokenizer",
                "step tuned: augmented: base leaves no new tokens but model, tokenizer",
                "step bench: models: tuned leaves no model but tokenizer, training report (with",
                "step bench: models: head leaves no model but draft head",
                "step bench: indexes: base leaves no index",
                "step bench: draft_heads: tuned leaves no draft head",
                "step bench: token_counts: tokens leaves no token counts",
            ],
        ),
    ],
    ids=range(19),
)
def test_a_recipe_is_checked_whole_before_its_first_step(capsys, tmp_path, steps, said):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    write(tmp_path / "task" / "test.jsonl", ROWS)
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


def test_every_command_of_a_recipe_shows_its_result(capsys, tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    tokens = make_tokenizer(tmp_path / "tok")
    (tmp_path / "r.yaml").write_text(
        HEAD + f"  v: {{command: vocab, target: {tokens}, draft: {tokens}}}\n"
    )
    code, out, err = tasc(
        capsys, "run", tmp_path / "r.yaml", "--data-dir", tmp_path, "--output", tmp_path / "out"
    )
    assert code == 0, err
    assert "standard" in out


@pytest.mark.parametrize("position", ["home", "a=b", "file"])
def test_a_tokenizer_that_changed_where_it_lies_is_read_again(tmp_path, monkeypatch, position):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = make_tokenizer(tmp_path / position)
    path = {"home": "~/home", "file": str(folder / "tokenizer.json")}.get(position, str(folder))
    source = Data(path=str(write(tmp_path / "task.jsonl", ROWS)))
    config = IndexOptions(source=source, tokenizer=path)

    def reused() -> bool:
        return run_step(config, tmp_path / "out", reuse=True).reused

    assert not reused()
    assert reused()
    names = folder / "tokenizer_config.json"
    names.write_text(names.read_text().replace('"eos_token": "<|endoftext|>"', '"eos_token": "!"'))
    assert not reused()


def test_a_broken_validation_split_is_not_passed_over(tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    broken = tmp_path / "task" / "validation.jsonl"
    broken.write_text('{"input": "a"\n')
    tokens = str(make_tokenizer(tmp_path / "tok"))
    config = AugmentOptions(source=Data(path=str(broken.parent)), tokenizer=tokens, budget=3)
    with pytest.raises(InputError, match=r"validation\.jsonl:1: invalid JSON"):
        run_step(config, tmp_path / "out")


def test_a_split_is_not_held_out_from_itself(tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    write(tmp_path / "task" / "dev.jsonl", ROWS)
    source, tokens = Data(path=str(tmp_path / "task")), str(make_tokenizer(tmp_path / "tok"))
    config = AugmentOptions(source=source, tokenizer=tokens, budget=3, split="dev")
    assert run_step(config, tmp_path / "tokens").result["held_out"] is None
    analysis = AnalyzeOptions(source=source, tokenizer=tokens, budgets=(0,), split="valid")
    assert run_step(analysis, tmp_path / "analysis").result["drafting"]["samples"] == 10


def test_a_limit_makes_no_step_larger(tmp_path):
    (tmp_path / "r.yaml").write_text(
        HEAD
        + "  a: {command: index, tokenizer: t}\n"
        + "  b: {command: index, tokenizer: t, limit: 5}\n"
        + "  c: {command: index, tokenizer: t, limit: 50}\n"
    )
    limited = read(tmp_path / "r.yaml", Overrides(limit=20))
    assert [step.limit for step in limited.steps.values()] == [20, 5, 20]
    whole = read(tmp_path / "r.yaml", Overrides())
    assert [step.limit for step in whole.steps.values()] == [None, 5, 50]


def test_a_tilde_is_the_home_folder_wherever_a_path_is_asked_for(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "task" / "train.jsonl", ROWS)
    make_tokenizer(tmp_path / "tok")
    (tmp_path / "r.yaml").write_text(HEAD + "  i: {command: index, tokenizer: ~/tok}\n")
    folders = ("--data-dir", "~", "--output", "~/out")
    code, _, err = tasc(capsys, "run", "~/r.yaml", *folders)
    assert code == 0, err
    assert (tmp_path / "out" / "i" / "index.tasc").is_file()
    code, out, err = tasc(capsys, "index", "~/task", "--tokenizer", "~/tok", "--output", "~/one")
    assert code == 0, err
    assert f"index: {tmp_path / 'one'}" in out
    assert not (tmp_path / "~").exists()
    code, _, err = tasc(capsys, "index", "~/task", "--tokenizer", "~no-such-user/tok")
    assert (code, err) == (
        2,
        "error: tasc index: ~no-such-user/tok: no such home folder: write the path out; "
        "see tasc index --help\n",
    )


def test_an_empty_reference_is_not_taken_for_none(capsys, tmp_path):
    task = write(tmp_path / "task.jsonl", ROWS)
    code, _, err = tasc(capsys, "analyze", task, "--tokenizer", "", "--output", tmp_path / "out")
    assert (code, err) == (
        2,
        "error: tasc analyze: tokenizer is empty: name a file, a folder or a Hub id; "
        "see tasc analyze --help\n",
    )


@pytest.mark.parametrize("kind", ["reference", "link", "below", "source"])
def test_an_output_never_replaces_what_is_read(tmp_path, kind):
    task, tokens = write(tmp_path / "task.jsonl", ROWS), make_tokenizer(tmp_path / "tok")
    index = {"n_max": 2, "source": Data(path=str(task))}
    out = tmp_path / "out"
    run_step(IndexOptions(tokenizer=str(tokens), **index), out)  # so out is an artefact
    match kind:
        case "source":
            index["source"] = Data(path=str(write(out / "task.jsonl", ROWS)))
        case "link":
            (tmp_path / "link").symlink_to(out)
            tokens = tmp_path / "link"
        case _:
            tokens = out / "below" if kind == "below" else out
            make_tokenizer(tokens)
    before = sorted(out.rglob("*"))
    with pytest.raises(InputError, match=r"output .* would replace .*name another folder"):
        run_step(IndexOptions(tokenizer=str(tokens), **index), out, force=True)
    assert sorted(out.rglob("*")) == before


def test_a_dry_run_shows_the_plan_and_leaves_nothing(capsys, tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    tokenizer = make_tokenizer(tmp_path / "tokenizer")
    recipe = tmp_path / "r.yaml"
    steps = f"  t: {{command: augment, tokenizer: {tokenizer}, budget: 2}}\n"
    steps += "  i: {command: index, tokenizer: t}\n"
    recipe.write_text(HEAD + steps)
    command = ("run", recipe, "--data-dir", tmp_path, "--output", tmp_path / "out")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = tasc(capsys, *command, "--dry-run")
    assert (code, err) == (0, "")
    assert "x: 2 steps, nothing wrong was found" in out
    starts = [line.split()[:4] for line in out.splitlines()]
    assert ["t", "augment", "-", "-"] in starts
    assert ["i", "index", "t", "-"] in starts
    assert "budget=2" in out
    assert sorted(tmp_path.rglob("*")) == before
    assert tasc(capsys, *command)[0] == 0
    code, out, _ = tasc(capsys, *command, "--dry-run", "--json")
    planned = json.loads(out)
    assert [(step["name"], step["needs"]) for step in planned] == [("t", []), ("i", ["t"])]
    assert all(step["last_seconds"] > 0 for step in planned)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("b: {command: bench, models: [gpt2], methods: [tasc-spek]}", "tasc-spek"),
        ("b: {command: bench, models: [gpt2], metrics: [exakt]}", "exakt"),
        ("b: {command: bench, models: [tokens]}", "leaves no model but"),
        ("b: {command: index, tokenizer: tokenz}", "name tokens"),
    ],
)
def test_a_dry_run_finds_every_wrong_name(capsys, tmp_path, step, said):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"{HEAD}  tokens: {{command: augment, tokenizer: gpt2}}\n  {step}\n")
    code, out, err = tasc(capsys, "run", recipe, "--data-dir", tmp_path, "--dry-run")
    assert (code, out) == (2, "")
    assert said in err
    assert err.endswith("mend the recipe\n")
