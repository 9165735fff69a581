"""What steps read and write, when one is done again, and what a dry run shows."""

from contextlib import contextmanager

import pytest
from tasc_cli.commands import run

from tasc.analysis.options import AnalyzeOptions
from tasc.commands.plan import RunOptions, read
from tasc.commands.steps import run_step
from tasc.decoding.drafters.ngram.options import IndexOptions
from tasc.errors import InputError
from tasc.options.task import Data
from tasc.options.texts import read_texts
from tasc.progress import silent
from tasc.training.options import FinetuneOptions
from tasc.vocab.search.options import AugmentOptions
from tests.cli import done, printed, refused, tasc
from tests.pico import make_base, make_tokenizer, restate
from tests.recipes import ROWS, write, write_recipe


@pytest.fixture
def tokens(tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    return make_tokenizer(tmp_path / "tok")


def run_of(folder, steps):
    """Write a recipe of these steps; return the words of the command that runs it."""
    recipe = write_recipe(folder, steps)
    return ("run", recipe, "--data-dir", folder, "--output", folder / "out")


def test_every_command_of_a_recipe_shows_its_result(capsys, tmp_path, tokens):
    step = f"  v: {{command: vocab, target: {tokens}, draft: {tokens}}}\n"
    assert "standard" in printed(capsys, *run_of(tmp_path, step))


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


def test_a_broken_validation_split_is_not_passed_over(tmp_path, tokens):
    (tmp_path / "task" / "validation.jsonl").write_text('{"input": "a"\n')
    source = Data(path=str(tmp_path / "task"))
    config = AugmentOptions(source=source, tokenizer=str(tokens), new_tokens=3)
    with pytest.raises(InputError, match=r"validation\.jsonl:1: invalid JSON"):
        run_step(config, tmp_path / "out")


def test_a_split_is_not_held_out_from_itself(tmp_path, tokens):
    write(tmp_path / "task" / "dev.jsonl", ROWS)
    given = {"source": Data(path=str(tmp_path / "task")), "tokenizer": str(tokens)}
    config = AugmentOptions(**given, new_tokens=3, split="dev")
    assert run_step(config, tmp_path / "tokens").report.held_out is None
    analysis = AnalyzeOptions(**given, new_tokens=(0,), split="valid")
    assert run_step(analysis, tmp_path / "analysis").report.drafting.samples == 10


@pytest.mark.parametrize(("limit", "validated"), [(4, 1), (5, 2), (None, len(ROWS))])
def test_a_limit_leaves_a_quarter_for_validation(tmp_path, limit, validated):
    for split in ("train", "validation"):
        write(tmp_path / "task" / f"{split}.jsonl", ROWS)
    options = FinetuneOptions(source=Data(path=str(tmp_path / "task")), model="m", limit=limit)
    read = read_texts(options).corpora.values()
    assert [len(corpus.examples) for corpus in read] == [limit or len(ROWS), validated]


def test_a_limit_makes_no_step_larger(tmp_path):
    step = "{command: index, tokenizer: t, limit: "
    steps = f"  a: {{command: index, tokenizer: t}}\n  b: {step}5}}\n  c: {step}50}}\n"
    recipe = write_recipe(tmp_path, steps)
    for limit, expected in ((20, [20, 5, 20]), (None, [None, 5, 50])):
        plan = read(recipe, RunOptions(limit=limit))
        assert [step.limit for step in plan.steps.values()] == expected


def test_a_tilde_is_the_home_folder_wherever_a_path_is_asked_for(
    capsys, tmp_path, monkeypatch, tokens
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path, "  i: {command: index, tokenizer: ~/tok}\n")
    printed(capsys, "run", "~/r.yaml", "--data-dir", "~", "--output", "~/out")
    assert (tmp_path / "out" / "i" / "index.tasc").is_file()
    out = printed(capsys, "index", "~/task", "--tokenizer", "~/tok", "--output", "~/one")
    assert f"index: {tmp_path / 'one'}" in out
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize(
    ("tokenizer", "said"),
    [
        ("~no-such-user/tok", "~no-such-user/tok: no such home folder: give the full path"),
        ("", "tokenizer is empty: give a file, a folder or a Hub id"),
    ],
)
def test_a_reference_that_cannot_be_one_is_refused(capsys, tokenizer, said):
    line = refused(capsys, "index", "task", "--tokenizer", tokenizer)
    assert line == f"error: tasc index: {said}; see tasc index --help\n"


@pytest.mark.parametrize("kind", ["reference", "link", "below", "source"])
def test_an_output_never_replaces_what_is_read(tmp_path, kind):
    task, tokens = write(tmp_path / "task.jsonl", ROWS), make_tokenizer(tmp_path / "tok")
    index = {"counts": "n_max=2", "source": Data(path=str(task))}
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


def test_a_dry_run_shows_the_plan_and_leaves_nothing(capsys, tmp_path, tokens):
    steps = f"  t: {{command: augment, tokenizer: {tokens}, new_tokens: 2}}\n"
    command = run_of(tmp_path, steps + "  i: {command: index, tokenizer: t}\n")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = tasc(capsys, *command, "--dry-run")
    assert (code, err) == (0, "")
    assert "x: the recipe is valid, 2 steps" in out
    starts = [line.split()[:3] for line in out.splitlines()]
    assert ["t", "augment", "-"] in starts
    assert ["i", "index", "t"] in starts
    assert "t, i: a rough estimate, by the size of the texts" in out
    assert "new_tokens=2" in out
    assert sorted(tmp_path.rglob("*")) == before
    printed(capsys, *command)
    planned = done(capsys, *command, "--dry-run")
    assert [(step["name"], step["needs"]) for step in planned] == [("t", []), ("i", ["t"])]
    assert all(step["last_seconds"] > 0 for step in planned)


def test_a_dry_run_asks_for_an_export_only_if_tokens_are_added(capsys, tmp_path, tokens):
    restate(tokens / "tokenizer.json", pre_tokenizer={"type": "Digits", "individual_digits": True})
    step = f"  t: {{command: augment, tokenizer: {tokens}, %s}}\n"
    done(capsys, *run_of(tmp_path, step % "trim: true"), "--dry-run")
    line = refused(capsys, *run_of(tmp_path, step % "new_tokens: 2"), "--dry-run")
    assert "use --export added, or no new tokens if that is refused too" in line


def test_a_dry_run_checks_the_models_that_steps_read(capsys, tmp_path, tokens):
    model = make_base(tmp_path / "model")
    restate(model / "config.json", hidden_size=48)
    step = f"  tuned: {{command: finetune, model: {model}, quantize: none}}\n"
    line = refused(capsys, *run_of(tmp_path, step), "--dry-run")
    assert "by config.json: download or save the model again" in line


def test_each_step_of_a_recipe_has_progress_of_its_own(capsys, tmp_path, monkeypatch, tokens):
    """The reported seconds are of the step, not of the whole recipe."""
    step = f"{{command: index, tokenizer: {tokens}}}\n"
    begun = []

    @contextmanager
    def watched():
        begun.append([*(tmp_path / "out").glob("[ab]")])
        yield silent

    monkeypatch.setattr(run, "show_progress", watched)
    printed(capsys, *run_of(tmp_path, f"  a: {step}  b: {step}"))
    assert begun == [[], [tmp_path / "out" / "a"]]


def test_reports_of_steps_that_are_up_to_date_are_not_printed_again(capsys, tmp_path, tokens):
    steps = [f"  {name}: {{command: index, tokenizer: {tokens}}}\n" for name in "ab"]
    first = printed(capsys, *run_of(tmp_path, "".join(steps)))
    again = printed(capsys, *run_of(tmp_path, "".join(steps)))
    assert len(again.splitlines()) * 2 == len(first.splitlines())  # the last step's alone
