"""A run that is killed leaves nothing half-written and goes on where it stopped."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasc.commands import calls
from tasc.commands.context import StepContext
from tasc.decoding.drafters.ngram.options import IndexOptions
from tests.cli import tasc
from tests.pico import make_base, make_tokenizer


@pytest.mark.slow
def test_a_killed_finetune_resumes_to_the_same_adapter(capsys, tmp_path, data_dir):
    base = make_base(tmp_path / "base")
    command = ["finetune", data_dir / "massive-en", "--model", base, "--limit", 700]
    command += ["--epochs", 1, "--batch-size", 8, "--effective-batch", 8]
    arguments = [str(a) for a in command]

    def output(name: str) -> list[str]:
        return ["--output", str(tmp_path / name)]

    process = subprocess.Popen(
        [sys.executable, "-m", "tasc_cli.main", *arguments, *output("killed")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    work = tmp_path / ".killed.work"
    deadline = time.monotonic() + 120
    while not list(work.rglob("*.safetensors")) and time.monotonic() < deadline:
        assert process.poll() is None, "the run ended before its first checkpoint"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed").exists()
    for name, resume in (("killed", ["--resume"]), ("whole", [])):
        code, _, err = tasc(capsys, *arguments, *output(name), *resume)
        assert code == 0, err
    killed, whole = (_adapter(tmp_path / name) for name in ("killed", "whole"))
    assert killed == whole
    assert not work.exists()
    assert json.loads((tmp_path / "killed" / "training.json").read_text())["steps"] == 88


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_that_a_checkpoint_was_kept(capsys, tmp_path, monkeypatch, number):
    task = tmp_path / "task.jsonl"
    task.write_text('{"input": "a", "output": "b"}\n')
    command = ["index", task, "--tokenizer", make_tokenizer(tmp_path / "tok")]

    def interrupted(options: IndexOptions, job: StepContext) -> None:
        if options.n_max == 3:
            (job.work / "checkpoint").touch()
        os.kill(os.getpid(), number)

    monkeypatch.setattr("tasc.commands.calls.index", interrupted)
    before = {p.name for p in tmp_path.iterdir()}
    code, _, err = tasc(capsys, *command, "--output", tmp_path / "out")
    assert (code, "--resume" in err) == (130, False)
    assert {p.name for p in tmp_path.iterdir()} == before
    code, _, err = tasc(capsys, *command, "--n-max", 3, "--output", tmp_path / "out")
    assert (code, "--resume" in err, err.count("interrupted")) == (130, True, 1)
    assert "run again" not in err
    assert {p.name for p in tmp_path.iterdir()} == before | {".out.work"}


@pytest.mark.usefixtures("heard")
def test_an_interrupted_recipe_names_the_command_that_resumes_it(capsys, tmp_path, monkeypatch):
    task, tokenizer = tmp_path / "task.jsonl", make_tokenizer(tmp_path / "tok")
    task.write_text('{"input": "a", "output": "b b"}\n')
    recipe, out, whole = tmp_path / "recipe.yaml", tmp_path / "out", calls.index
    step = f"{{command: index, tokenizer: {tokenizer}, n_max: "
    recipe.write_text(
        f"name: r\ndescription: d\ndata: {{path: {task}}}\nsteps:\n"
        f"  one: {step}2}}\n  two: {step}3}}\n"
    )

    def interrupted(options: IndexOptions, job: StepContext) -> object:
        return os.kill(os.getpid(), signal.SIGTERM) if options.n_max == 3 else whole(options, job)

    monkeypatch.setattr(sys, "argv", ["tasc", "run", str(recipe), "--output", str(out)])
    monkeypatch.setattr("tasc.commands.calls.index", interrupted)
    code, _, err = tasc(capsys, *sys.argv[1:])
    said = [line for line in err.splitlines() if line.startswith("interrupted")]
    told = f"finished steps are kept; resume with tasc run {recipe} --output {out}"
    assert (code, said) == (130, [f"interrupted: {told}"])
    monkeypatch.setattr("tasc.commands.calls.index", whole)
    code, _, err = tasc(capsys, *sys.argv[1:])
    assert (code, "one: up to date" in err, "two: done" in err) == (0, True, True)


@pytest.mark.usefixtures("heard")
def test_an_interrupt_before_the_command_begins_is_one_line(capsys, monkeypatch):
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tasc_cli.main.app", interrupted)
    code, _, err = tasc(capsys, "doctor")
    assert (code, err) == (130, "interrupted: no incomplete output is left; run again\n")


def _adapter(folder: Path) -> str:
    data = (folder / "adapter" / "adapter_model.safetensors").read_bytes()
    return hashlib.sha256(data).hexdigest()
