"""Bad input gets one clear line and exit code 2, and leaves nothing half-written."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from tasc.files import artefact
from tests.cli import done, printed, refused, tasc
from tests.pico import make_base, make_tokenizer
from tests.recipes import ROWS, write

LINE = b'{"input": "a", "output": "b"}\n'
FILES = {
    "empty.jsonl": b"",
    "blank.jsonl": b'{"input": "a", "output": ""}\n{"input": "b", "output": ""}\n',
    "latin.jsonl": LINE + b'{"input": "\xff", "output": "c"}\n',
    "many.jsonl": b"".join(LINE.replace(b'"b"', b'"%d and %d"' % (i, i + 1)) for i in range(12)),
    "half.jsonl": LINE + b'{"input": "a", \n',
    "list.yaml": b"- a\n",
    "open.yaml": b"name: [",
    "name.yaml": b"name: x\n",
    "steps.yaml": b"name: x\ndescription: y\ndata: {path: builtin:stdlib-tokens}\nsteps:\n"
    b"  a: {command: analyze, tokeniser: z}\n  b: {command: fly}\n",
}
TASK = "task.jsonl"
BENCH = ("bench", TASK, "--model", "x", "--split", "train")
AUGMENT = ("augment", TASK, "--tokenizer", "x", "--new-tokens")
A_NUMBER = "give a number from 1 to 1,000,000,000 or auto"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with a task and with files that no command can read, and no network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write(Path(TASK), ROWS[:12])
    return tmp_path


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("analyze", TASK, "--input-column", "text"), ["'text'", "input, output"]),
        (("index", TASK, "--tokenizer", "x", "--input-column="), ["input_column"]),
        (("index", TASK, "--tokenizer", "x", "--output-column="), ["output_column"]),
        (("analyze", TASK, "--split", "test"), ["no split 'test'; it has train"]),
        (("analyze", "empty.jsonl"), ["the split 'train' is empty"]),
        (("analyze", "blank.jsonl"), ["all 2 outputs", "are empty (column 'output')"]),
        (("analyze", "latin.jsonl"), ["latin.jsonl:2: invalid UTF-8"]),
        (("analyze", "half.jsonl"), ["half.jsonl:2: invalid JSON"]),
        (("analyze", "builtin:nothing"), ["stdlib-tokens"]),
        (("analyze", "no-such.jsonl"), ["no-such.jsonl"]),
        (("augment", TASK, "--tokenizer", "./nowhere"), ["nowhere: no such tokenizer"]),
        (("analyze", TASK, "--limit", 0, "--export", "magic"), ["limit: ", "export: "]),
        (("analyze", TASK, "--output", "task.jsonl/below"), ["cannot write output"]),
        (("bench", TASK), ["give --model"]),
        (("tune", TASK), ["give --tokenizer"]),
        ((*BENCH, "--delimiter", ""), ["delimiter"]),
        ((*BENCH, "--method", "magic"), ["unknown method 'magic'"]),
        ((*BENCH, "--metric", "bleu"), ["unknown metric 'bleu'"]),
        ((*BENCH, "--temperature", 0), ["from 1e-30 to 1e+30, got 0: leave out --temperature"]),
        (("run", "nonsense"), ["quickstart"]),
        (("run", "massive", "--data-dir", "."), ["massive-en", "--data-dir"]),
        (("run", "list.yaml"), ["does not hold the keys"]),
        (("run", "open.yaml"), ["not a readable YAML"]),
        (("run", "name.yaml"), ["description: missing", "data: missing", "steps: missing"]),
        (
            ("run", "steps.yaml"),
            ["step a: tokeniser: unknown key", "step b: command must be one of"],
        ),
        (("export", "x", "--to", "vllm", "--template", "Q: {input}"), ["without data: add --data"]),
        (("analyze", TASK, "--pcs", "inf"), ["pcs: input should be a finite number, got inf"]),
        (("analyze", TASK, "--budget", 10**11), ["new_tokens.0: input should be less than"]),
        ((*AUGMENT, 0), [f"new_tokens: got '0', {A_NUMBER}"]),
        ((*AUGMENT, "--5"), [A_NUMBER]),
        ((*AUGMENT, "²"), [A_NUMBER]),
        ((*AUGMENT, 10**11), [A_NUMBER]),
        (
            ("augment", "many.jsonl", "--tokenizer", "tok", "--new-tokens", 5000),
            ["5000 new tokens are more than", "--new-tokens"],
        ),
        (("index", "~nobody-of-this-name/x", "--tokenizer", "t"), ["no such home folder"]),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(capsys, here, command, said):
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    make_tokenizer(Path("tok"))
    before = sorted(here.rglob("*"))
    line = refused(capsys, *command, *(() if "--output" in command else ("--output", "out")))
    assert [words for words in said if words not in line] == []
    assert sorted(here.rglob("*")) == before


def test_outputs_without_text_are_left_out_and_counted(capsys):
    rows = [{"input": "a", "output": text} for text in ("b c", "", " ", "d")]
    out = printed(capsys, "analyze", write(Path("x.jsonl"), rows), "--output", "out")
    assert "(train, 2 samples; skipped 2 without an output)" in out


def test_an_output_is_replaced_only_by_force(capsys):
    command = ("analyze", TASK, "--output", "out")
    done(capsys, *command)
    before = Path("out/manifest.json").read_bytes()
    assert "--force" in refused(capsys, *command)
    assert Path("out/manifest.json").read_bytes() == before
    done(capsys, *command, "--force")


@pytest.mark.parametrize("name", ["there", None])
def test_what_the_system_refuses_is_one_line(capsys, here, monkeypatch, name):
    full = OSError(errno.ENOSPC, "No space left on device", name)
    monkeypatch.setattr(artefact, "write_json", Mock(side_effect=full))
    line = refused(capsys, "analyze", TASK, "--output", "out")
    assert f"{name or '.out.work/new'}" in line
    assert "cannot write" in line
    assert ": No space left on device (" in line
    assert "free some space, or choose another output" in line
    assert [p.name for p in here.iterdir()] == [TASK]


def test_models_that_cannot_be_used(capsys, here):
    Path("empty").mkdir()
    done(capsys, "analyze", TASK, "--output", "analysis")
    base, foreign = make_base(Path("base")), make_tokenizer(Path("foreign"))
    for given, said in (
        (("empty",), "empty"),
        ((base, "--augmented", foreign), "merges.json"),
        (("analysis",), "analysis contains no model: tasc analyze wrote it"),
    ):
        assert said in refused(capsys, "finetune", TASK, "--model", *given, "--output", "out")
    assert {p.name for p in here.iterdir()} == {TASK, "empty", "analysis", "base", "foreign"}


@pytest.mark.parametrize("at", ["tasc_cli.main.app", "tasc.commands.calls.analyze"])
def test_an_interrupt_before_and_in_a_command_is_one_line(capsys, here, monkeypatch, at):
    monkeypatch.setattr(at, Mock(side_effect=KeyboardInterrupt))
    ended = tasc(capsys, "analyze", TASK, "--output", "out")
    assert ended == (130, "", "interrupted: no incomplete output is left; run again\n")
    assert [path.name for path in here.iterdir()] == [TASK]


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
def test_a_package_that_is_not_there_is_named_unless_it_is_our_own(capsys, monkeypatch, name):
    missing = ModuleNotFoundError(f"No module named {name!r}", name=name)
    monkeypatch.setattr("tasc.commands.calls.analyze", Mock(side_effect=missing))
    given = ("analyze", TASK, "--output", "out")
    if name.startswith("tasc"):
        with pytest.raises(ModuleNotFoundError):
            tasc(capsys, *given)
    else:
        assert "the package torch is not installed: reinstall tasc" in refused(capsys, *given)


def test_a_tokenizer_with_more_tokens_than_the_model_has_rows_is_refused(capsys):
    base, wrong = make_base(Path("base")), make_base(Path("wrong"), vocabulary=300)
    for command in (
        ("bench", TASK, "--split", "train", "--model", wrong),
        ("bench", TASK, "--split", "train", "--model", base, "--draft", wrong, "--method", "slem"),
        ("vocab", base, wrong, "--data", TASK),
        ("vocab", wrong, base, "--data", TASK),
        ("analyze", TASK, "--model", wrong),
        ("export", wrong, "--to", "vllm"),
        ("finetune", TASK, "--model", wrong),
        ("finetune", TASK, "--model", wrong, "--draft-head"),
    ):
        line = refused(capsys, *command, "--output", "out")
        assert "wrong has 320 tokens, but the model has 300 embedding rows: use the" in line
        assert not Path("out").exists()


@pytest.mark.parametrize("name", ["x" * 5000, "/".join(["y" * 200] * 25)], ids=["x", "y"])
def test_a_path_that_no_system_takes_is_shortened(capsys, name):
    line = refused(capsys, "run", Path.cwd() / name)
    assert len(line) < 600
    assert "…" in line
