"""A run that is killed or interrupted leaves nothing half-written and goes on where it stopped."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest
from tasc_cli._command import INTERRUPTED, resumable

from tasc.commands import calls
from tasc.commands.context import StepContext
from tasc.data.foreign import as_input_error
from tasc.decoding.drafters.ngram.options import IndexOptions
from tasc.files import artefact, folders
from tasc.files.folders import publish
from tests.cli import printed, tasc
from tests.pico import make_base, make_tokenizer
from tests.recipes import ROWS, write, write_recipe
from tests.test_artefact import assert_only, make

_MOMENTS = ("call", "c_return")  # when Python looks for signals


# The command line, in a process that is killed two steps after its first checkpoint.
KILLED = """
import os, signal, sys
from tasc.training.loop import Run
from tasc_cli.main import main
step = Run._step
def last(run, number):
    if number == 22:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(run, number)
Run._step = last
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_killed_finetune_resumes_to_the_same_adapter(capsys, tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS * 8)
    write(tmp_path / "task" / "validation.jsonl", ROWS)
    command = ["finetune", tmp_path / "task", "--model", make_base(tmp_path / "base")]
    command += ["--epochs", 1, "--batch-size", 4, "--effective-batch", 4]
    command += ["--checkpoint-steps", 20, "--output"]
    arguments = [str(a) for a in (*command, tmp_path / "killed")]
    work = tmp_path / ".killed.work"
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert any(work.rglob("*.safetensors"))
    assert not (tmp_path / "killed").exists()
    printed(capsys, *arguments, "--resume")
    printed(capsys, *command, tmp_path / "whole")
    killed, whole = (
        (tmp_path / name / "adapter" / "adapter_model.safetensors").read_bytes()
        for name in ("killed", "whole")
    )
    assert killed == whole
    assert not work.exists()
    assert json.loads((tmp_path / "killed" / "training.json").read_text())["steps"] == 60


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_that_a_checkpoint_was_kept(capsys, tmp_path, monkeypatch, number):
    task, tokenizer = write(tmp_path / "task.jsonl", ROWS), make_tokenizer(tmp_path / "tok")
    command = ("index", task, "--tokenizer", tokenizer, "--output", tmp_path / "out")

    def interrupted(options: IndexOptions, job: StepContext) -> None:
        if options.rules.n_max == 3:
            (job.work / "checkpoint").touch()
        os.kill(os.getpid(), number)

    monkeypatch.setattr("tasc.commands.calls.index", interrupted)
    before = {p.name for p in tmp_path.iterdir()}
    code, _, err = tasc(capsys, *command)
    assert (code, "--resume" in err) == (130, False)
    assert {p.name for p in tmp_path.iterdir()} == before
    code, _, err = tasc(capsys, *command, "--counts", "n_max=3")
    assert (code, "--resume" in err, err.count("interrupted")) == (130, True, 1)
    assert "run again" not in err
    assert {p.name for p in tmp_path.iterdir()} == before | {".out.work"}


@pytest.mark.usefixtures("heard")
def test_an_interrupted_recipe_names_the_command_that_resumes_it(capsys, tmp_path, monkeypatch):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    step = f"{{command: index, tokenizer: {make_tokenizer(tmp_path / 'tok')}, counts: n_max="
    recipe = write_recipe(tmp_path, f"  one: {step}2}}\n  two: {step}3}}\n")
    given = f"run {recipe} --data-dir {tmp_path} --output {tmp_path / 'out'}"
    whole = calls.index

    def interrupted(options: IndexOptions, job: StepContext) -> object:
        return (
            os.kill(os.getpid(), signal.SIGTERM)
            if options.rules.n_max == 3
            else whole(options, job)
        )

    monkeypatch.setattr(sys, "argv", ["tasc", *given.split()])
    monkeypatch.setattr("tasc.commands.calls.index", interrupted)
    code, _, err = tasc(capsys, *sys.argv[1:])
    said = [line for line in err.splitlines() if line.startswith("interrupted")]
    told = f"interrupted: finished steps are kept; resume with tasc {given}"
    assert (code, said) == (130, [told])
    monkeypatch.setattr("tasc.commands.calls.index", whole)
    code, _, err = tasc(capsys, *sys.argv[1:])
    assert (code, "one: up to date" in err, "two: done" in err) == (0, True, True)


def test_the_message_is_not_captured_with_the_output_of_native_code(tmp_path: Path) -> None:
    """Each moment around a block whose stderr is captured is interrupted once."""
    code, moment = INTERRUPTED, 0
    while code == INTERRUPTED:
        moment += 1
        errors = tmp_path / str(moment)
        child = os.fork()  # locks of the standard library may stay locked
        if not child:
            _interrupted(moment, errors)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        interrupted = "interrupted: all is kept" in errors.read_text()
        assert interrupted == (code == INTERRUPTED), f"moment {moment}: {code}"
    assert (code, moment > 20) == (0, True)


def _interrupted(moment: int, errors: Path) -> NoReturn:
    """Interrupt a captured block at its ``moment``-th moment; exit 0 if it has fewer."""
    left, code = moment, 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        left -= event in _MOMENTS
        if not left:
            sys.setprofile(None)
            raise KeyboardInterrupt

    try:
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
        sys.stderr = os.fdopen(2, "w", closefd=False)  # pytest's own does not write there
        with resumable(lambda: True, "all is kept"):
            sys.setprofile(count)
            _guarded(lambda: os.write(2, b"native\n"))
            sys.setprofile(None)
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        code = 1
    finally:
        os._exit(code)


def _guarded(work: Callable[[], object]) -> None:
    with as_input_error("a tokenizer", "pass another"):
        work()


def test_an_interrupt_while_checkpoints_are_deleted_leaves_none(tmp_path, monkeypatch):
    def interrupted(*_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(folders, "discard", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "out", "whole")
    assert_only(tmp_path / "out", "whole")


@pytest.mark.parametrize("old", [False, True])
def test_an_interrupt_after_the_rename_leaves_no_checkpoints(tmp_path, monkeypatch, old):
    def interrupted(folder, output):
        publish(folder, output)
        raise KeyboardInterrupt

    if old:
        make(tmp_path / "out", "old")
    monkeypatch.setattr(artefact, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "out", "whole", force=True)
    assert_only(tmp_path / "out", "whole")
