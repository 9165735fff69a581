"""What steps read and write, when one is done again, and what a dry run shows."""

import json
from contextlib import contextmanager

import pytest
from tasc_cli.commands import run

from tasc.analysis.options import AnalyzeOptions
from tasc.commands.plan import Overrides, read
from tasc.commands.steps import run_step
from tasc.decoding.drafters.ngram.options import IndexOptions
from tasc.errors import InputError
from tasc.options.task import Data
from tasc.options.texts import read_texts
from tasc.progress import silent
from tasc.training.options import FinetuneOptions
from tasc.vocab.search.options import AugmentOptions
from tests.cli import tasc
from tests.pico import make_base, make_tokenizer
from tests.recipes import HEAD, ROWS, write


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
    config = AugmentOptions(source=Data(path=str(broken.parent)), tokenizer=tokens, new_tokens=3)
    with pytest.raises(InputError, match=r"validation\.jsonl:1: invalid JSON"):
        run_step(config, tmp_path / "out")


def test_a_split_is_not_held_out_from_itself(tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    write(tmp_path / "task" / "dev.jsonl", ROWS)
    source, tokens = Data(path=str(tmp_path / "task")), str(make_tokenizer(tmp_path / "tok"))
    config = AugmentOptions(source=source, tokenizer=tokens, new_tokens=3, split="dev")
    assert run_step(config, tmp_path / "tokens").report.held_out is None
    analysis = AnalyzeOptions(source=source, tokenizer=tokens, new_tokens=(0,), split="valid")
    assert run_step(analysis, tmp_path / "analysis").report.drafting.samples == 10


@pytest.mark.parametrize(("limit", "validated"), [(4, 1), (5, 2), (None, len(ROWS))])
def test_a_limit_leaves_a_quarter_for_validation(tmp_path, limit, validated):
    for split in ("train", "validation"):
        write(tmp_path / "task" / f"{split}.jsonl", ROWS)
    options = FinetuneOptions(source=Data(path=str(tmp_path / "task")), model="m", limit=limit)
    read = read_texts(options).corpora.values()
    assert [len(corpus.examples) for corpus in read] == [limit or len(ROWS), validated]


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
        "error: tasc index: ~no-such-user/tok: no such home folder: give the full path; "
        "see tasc index --help\n",
    )


def test_an_empty_reference_is_not_taken_for_none(capsys, tmp_path):
    task = write(tmp_path / "task.jsonl", ROWS)
    code, _, err = tasc(capsys, "analyze", task, "--tokenizer", "", "--output", tmp_path / "out")
    assert (code, err) == (
        2,
        "error: tasc analyze: tokenizer is empty: give a file, a folder or a Hub id; "
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
    with pytest.raises(InputError, match=r"output .* would replace .*choose another folder"):
        run_step(IndexOptions(tokenizer=str(tokens), **index), out, force=True)
    assert sorted(out.rglob("*")) == before


def test_a_dry_run_shows_the_plan_and_leaves_nothing(capsys, tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    tokenizer = make_tokenizer(tmp_path / "tokenizer")
    recipe = tmp_path / "r.yaml"
    steps = f"  t: {{command: augment, tokenizer: {tokenizer}, new_tokens: 2}}\n"
    steps += "  i: {command: index, tokenizer: t}\n"
    recipe.write_text(HEAD + steps)
    command = ("run", recipe, "--data-dir", tmp_path, "--output", tmp_path / "out")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = tasc(capsys, *command, "--dry-run")
    assert (code, err) == (0, "")
    assert "x: the recipe is valid, 2 steps" in out
    starts = [line.split()[:4] for line in out.splitlines()]
    assert ["t", "augment", "-", "-"] in starts
    assert ["i", "index", "t", "-"] in starts
    assert "new_tokens=2" in out
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
    assert err.endswith("correct the recipe\n")


def test_a_dry_run_checks_the_models_that_steps_read(capsys, tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    model = make_base(tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"hidden_size": 48}))
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"{HEAD}  tuned: {{command: finetune, model: {model}, quantize: none}}\n")
    code, out, err = tasc(capsys, "run", recipe, "--data-dir", tmp_path, "--dry-run")
    assert (code, out) == (2, "")
    assert "by config.json: download or save the model again" in err


def test_each_step_of_a_recipe_has_progress_of_its_own(capsys, tmp_path, monkeypatch):
    """The reported seconds are of the step, not of the whole recipe."""
    write(tmp_path / "task" / "train.jsonl", ROWS)
    step = f"{{command: index, tokenizer: {make_tokenizer(tmp_path / 'tok')}}}\n"
    (tmp_path / "r.yaml").write_text(HEAD + f"  a: {step}  b: {step}")
    begun = []

    @contextmanager
    def watched():
        begun.append([*(tmp_path / "out").glob("[ab]")])
        yield silent

    monkeypatch.setattr(run, "show_progress", watched)
    given = ("--data-dir", tmp_path, "--output", tmp_path / "out")
    assert tasc(capsys, "run", tmp_path / "r.yaml", *given)[0] == 0
    assert begun == [[], [tmp_path / "out" / "a"]]
