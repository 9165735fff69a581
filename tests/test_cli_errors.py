"""Bad input gets one clear line and exit code 2, and leaves nothing half-written."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from tasc.files import artefact
from tests.cli import tasc
from tests.pico import make_base, make_tokenizer
from tests.recipes import ROWS, write


@pytest.fixture
def task(tmp_path):
    return write(tmp_path / "task.jsonl", ROWS[:12])


def refused(capsys, *arguments: object) -> str:
    """Run a command that must fail; return its one line."""
    code, out, err = tasc(capsys, *arguments)
    assert code == 2, err
    assert out == ""
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    return lines[0]


def test_missing_column_names_the_columns_there_are(capsys, task, tmp_path):
    line = refused(capsys, "analyze", task, "--input-column", "text", "--output", tmp_path / "out")
    assert "'text'" in line
    assert "input, output" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--input-column=", "--output-column="])
def test_an_option_without_a_value_is_refused(capsys, task, tmp_path, option):
    line = refused(capsys, "index", task, "--tokenizer", "x", option, "--output", tmp_path / "out")
    assert option[2:-1] in line.replace("_", "-")


def test_missing_or_empty_split(capsys, task, tmp_path):
    line = refused(capsys, "analyze", task, "--split", "test", "--output", tmp_path / "out")
    assert "test" in line
    assert "train" in line
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "empty" in refused(capsys, "analyze", empty, "--output", tmp_path / "out")


def test_empty_outputs(capsys, tmp_path):
    path = write(tmp_path / "x.jsonl", [{"input": "a", "output": ""}, {"input": "b", "output": ""}])
    line = refused(capsys, "analyze", path, "--output", tmp_path / "out")
    assert "output" in line
    assert "empty" in line


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b'{"input": "a", "output": "b"}\n{"input": "\xff", "output": "c"}\n', "UTF-8"),
        (b'{"input": "a", "output": "b"}\n{"input": "a", \n', "JSON"),
    ],
)
def test_a_broken_file_is_named_with_its_line(capsys, tmp_path, content, word):
    path = tmp_path / "broken.jsonl"
    path.write_bytes(content)
    line = refused(capsys, "analyze", path, "--output", tmp_path / "out")
    assert word in line
    assert "broken.jsonl" in line
    assert "2" in line


def test_unknown_source_builtin_and_tokenizer(capsys, task, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out = ("--output", tmp_path / "out")
    assert "stdlib-tokens" in refused(capsys, "analyze", "builtin:nothing", *out)
    assert "no-such.jsonl" in refused(capsys, "analyze", tmp_path / "no-such.jsonl", *out)
    line = refused(capsys, "augment", task, "--tokenizer", tmp_path / "nowhere", *out)
    assert "nowhere" in line
    assert not (tmp_path / "out").exists()


def test_outputs_without_text_are_left_out_and_counted(capsys, tmp_path):
    rows = [{"input": "a", "output": text} for text in ("b c", "", " ", "d")]
    path = write(tmp_path / "x.jsonl", rows)
    code, out, err = tasc(capsys, "analyze", path, "--output", tmp_path / "out")
    assert code == 0, err
    assert "(train, 2 samples; skipped 2 without an output)" in out


def test_budget_larger_than_the_candidates(capsys, task, tmp_path):
    tokenizer = make_tokenizer(tmp_path / "tok")
    write(task, [{"input": "a", "output": f"value {i} and {i + 1}"} for i in range(12)])
    command = ("augment", task, "--tokenizer", tokenizer, "--new-tokens", 5000)
    line = refused(capsys, *command, "--output", tmp_path / "out")
    assert "5000 new tokens are more than" in line
    assert "--new-tokens" in line
    assert not (tmp_path / "out").exists()


def test_outputs_that_cannot_or_must_not_be_written(capsys, task, tmp_path):
    assert tasc(capsys, "analyze", task, "--output", tmp_path / "out")[0] == 0
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    assert "--force" in refused(capsys, "analyze", task, "--output", tmp_path / "out")
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before
    assert tasc(capsys, "analyze", task, "--output", tmp_path / "out", "--force")[0] == 0
    line = refused(capsys, "analyze", task, "--output", task / "below")
    assert "cannot write output" in line


@pytest.mark.parametrize("name", ["there", None])
def test_what_the_system_refuses_is_one_line(capsys, task, tmp_path, monkeypatch, name):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", name)

    monkeypatch.setattr(artefact, "write_json", full)
    line = refused(capsys, "analyze", task, "--output", tmp_path / "out")
    assert f"{name or '.out.work/new'}" in line
    assert "cannot write" in line
    assert ": No space left on device (" in line
    assert "free some space, or choose another output" in line
    assert [p.name for p in tmp_path.iterdir()] == [task.name]


def test_wrong_options_are_all_named_at_once(capsys, task, tmp_path):
    out = ("--output", tmp_path / "out")
    line = refused(capsys, "analyze", task, "--limit", 0, "--export", "magic", *out)
    assert "limit" in line
    assert "export" in line
    line = refused(
        capsys, "bench", task, "--model", "x", "--method", "magic", "--split", "train", *out
    )
    assert "unknown method 'magic'" in line
    line = refused(
        capsys, "bench", task, "--model", "x", "--metric", "bleu", "--split", "train", *out
    )
    assert "unknown metric 'bleu'" in line


def test_models_that_cannot_be_used(capsys, task, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out = ("--output", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    line = refused(capsys, "finetune", task, "--model", tmp_path / "empty", *out)
    assert "empty" in line
    base = make_base(tmp_path / "base")
    foreign = make_tokenizer(tmp_path / "foreign")
    line = refused(capsys, "finetune", task, "--model", base, "--augmented", foreign, *out)
    assert "merges.json" in line
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / ".out.work").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", ["does not hold the keys"]),
        ("name: [", ["not a readable YAML"]),
        ("name: x\n", ["description: missing", "data: missing", "steps: missing"]),
        (
            "name: x\ndescription: y\ndata: {path: builtin:stdlib-tokens}\nsteps:\n"
            "  a: {command: analyze, tokeniser: z}\n  b: {command: fly}\n",
            ["step a: tokeniser: unknown key", "step b: command must be one of"],
        ),
    ],
)
def test_a_wrong_recipe_is_refused_whole(capsys, tmp_path, text, words):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    line = refused(capsys, "run", path, "--output", tmp_path / "out")
    for word in words:
        assert word in line
    assert not (tmp_path / "out").exists()


def test_unknown_recipe_and_data_folder(capsys, tmp_path):
    assert "quickstart" in refused(capsys, "run", "nonsense")
    line = refused(capsys, "run", "massive", "--data-dir", tmp_path)
    assert "massive-en" in line
    assert "--data-dir" in line


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("analyze", "--pcs", "inf"), "pcs: input should be a finite number, got inf"),
        (("analyze", "--budget", 10**11), "new_tokens.0: input should be less than or equal to"),
        (
            ("augment", "--overfit-penalty", "inf"),
            "overfit_penalty: input should be a finite number",
        ),
        (
            ("augment", "--new-tokens", 0),
            "new_tokens: got '0', give a number from 1 to 1,000,000,000 or auto",
        ),
        (("augment", "--new-tokens", "--5"), "give a number from 1 to 1,000,000,000 or auto"),
        (("augment", "--new-tokens", "²"), "give a number from 1 to 1,000,000,000 or auto"),
        (("augment", "--new-tokens", 10**11), "give a number from 1 to 1,000,000,000 or auto"),
        (("base", "--epochs", "inf"), "epochs: input should be a finite number"),
    ],
)
def test_numbers_that_cannot_be_worked_with_are_refused(capsys, task, tmp_path, command, words):
    name, *options = command
    given = ("--tokenizer", "x", *options, "--output", tmp_path / "out")
    assert words in refused(capsys, name, task, *given)


def test_an_interrupt_is_answered(capsys, task, tmp_path, monkeypatch):
    def interrupt(options: object, job: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tasc.commands.calls.analyze", interrupt)
    code, out, err = tasc(capsys, "analyze", task, "--output", tmp_path / "out")
    assert (code, out) == (130, "")
    assert err.startswith("interrupted: no incomplete output is left")
    assert [path.name for path in tmp_path.iterdir()] == ["task.jsonl"]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["compare", "--wrong"]])
def test_a_pipe_that_nobody_reads_ends_quietly_and_with_no_code_of_ours(arguments):
    read, write = os.pipe()
    os.close(read)
    ran = [sys.executable, "-m", "tasc_cli.main", *arguments]
    err = write if "compare" in arguments else subprocess.PIPE
    ended = subprocess.run(ran, stdout=write, stderr=err, check=False)
    os.close(write)
    assert ended.returncode == 128 + signal.SIGPIPE
    assert not ended.stderr


@pytest.mark.parametrize("name", ["torch", "tasc.gone"])
def test_a_package_that_is_not_there_is_named_unless_it_is_our_own(
    capsys, task, tmp_path, monkeypatch, name
):
    def missing(options: object, job: object) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("tasc.commands.calls.analyze", missing)
    given = ("analyze", task, "--output", tmp_path / "out")
    if name.startswith("tasc"):
        with pytest.raises(ModuleNotFoundError):
            tasc(capsys, *given)
    else:
        assert "the package torch is not installed: reinstall tasc" in refused(capsys, *given)


def test_bench_says_which_option_is_missing(capsys, task, tmp_path):
    out = ("--output", tmp_path / "out")
    assert "give --model" in refused(capsys, "bench", task, *out)
    assert "give --tokenizer" in refused(capsys, "tune", task, *out)
    line = refused(capsys, "bench", task, "--model", "x", "--delimiter", "", *out)
    assert "delimiter" in line


def test_a_folder_that_holds_no_model_is_called_what_it_is(capsys, task, tmp_path):
    assert tasc(capsys, "analyze", task, "--output", tmp_path / "a")[0] == 0
    line = refused(capsys, "finetune", task, "--model", tmp_path / "a", "--output", tmp_path / "b")
    assert "a contains no model: tasc analyze wrote it" in line


def test_a_tokenizer_with_more_tokens_than_the_model_has_rows_is_refused(capsys, task, tmp_path):
    base, wrong = make_base(tmp_path / "base"), make_base(tmp_path / "wrong", vocabulary=300)
    model = ("--model", wrong)
    for command in (
        ("bench", task, "--split", "train", *model),
        ("bench", task, "--split", "train", "--model", base, "--draft", wrong, "--method", "slem"),
        ("vocab", base, wrong, "--data", task),
        ("vocab", wrong, base, "--data", task),
        ("analyze", task, *model),
        ("export", wrong, "--to", "vllm"),
        ("finetune", task, *model),
        ("finetune", task, *model, "--draft-head"),
    ):
        line = refused(capsys, *command, "--output", tmp_path / "out")
        assert (
            "wrong has 320 tokens, but the model has 300 embedding rows: use the model's own"
            in line
        )
        assert not (tmp_path / "out").exists()


def test_how_data_are_read_is_not_dropped_where_none_are_named(capsys, tmp_path):
    code, _, err = tasc(capsys, "export", tmp_path, "--to", "vllm", "--template", "Q: {input}")
    assert code == 2
    assert "--template has no effect without data: add --data" in err


def test_a_path_that_no_system_takes_is_shortened(capsys, tmp_path):
    for name in ("x" * 5000, "/".join(["y" * 200] * 25)):
        code, _, err = tasc(capsys, "run", tmp_path / name)
        assert (code, err.count("\n")) == (2, 1)
        assert len(err) < 600
        assert "…" in err
