"""Analysis by several workers: the same file, whoever is killed meanwhile."""

import os
import signal
import subprocess
import sys
from multiprocessing import active_children

import pytest

from tasc.analysis import scan as spread
from tasc.analysis.counted import load_counted
from tasc.analysis.options import AnalyzeOptions
from tasc.commands.steps import run_step
from tasc.data import stream
from tests.pico import make_tokenizer
from tests.recipes import write
from tests.test_execution import NAMES

PIECE = 4000
DRIVER = """
import os, signal, sys
from pathlib import Path
from tasc.analysis.options import AnalyzeOptions
from tasc.commands.steps import run_step
from tasc.data import stream

def progress(stage, done, total):
    if (stage, done) == ("count pieces", 2):
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    stream.PIECE = int(sys.argv[1])
    options = AnalyzeOptions(source=sys.argv[2], tokenizer=sys.argv[3], executor="processes")
    run_step(options, Path(sys.argv[4]), progress=progress)
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    rows = [{"input": f"say {n} é", "output": f"intent {n % 9}: {n}"} for n in range(800)]
    write(folder / "train.jsonl", rows)
    make_tokenizer(folder / "tokenizer")
    return folder


@pytest.fixture
def analyze(task, monkeypatch):
    """A function that analyses the task in small pieces and returns the bytes of the file."""
    monkeypatch.setattr(stream, "PIECE", PIECE)

    def run(output, progress=lambda *_: None, **options):
        asked = AnalyzeOptions(source=str(task), tokenizer=str(task / "tokenizer"), **options)
        run_step(asked, output, progress=progress)
        return (output / "analysis.json").read_bytes()

    return run


@pytest.mark.parametrize("executor", NAMES[1:])
def test_any_executor_leaves_the_same_file(analyze, tmp_path, executor):
    done = []
    there = analyze(tmp_path / "there", lambda *call: done.append(call), executor=executor)
    assert there == analyze(tmp_path / "here")
    assert max(number for stage, number, _ in done if stage == "count pieces") > 5


def test_a_worker_that_is_killed_changes_nothing(analyze, tmp_path):
    killed = []

    def kill(stage, done, _total):
        if stage == "count pieces" and done in (1, 3):
            worker = active_children()[0]
            os.kill(worker.pid, signal.SIGKILL)
            killed.append(worker.pid)

    found = analyze(tmp_path / "killed", kill, executor="processes")
    assert len(set(killed)) == 2
    assert found == analyze(tmp_path / "here")


def test_a_command_that_is_killed_goes_on_from_the_pieces_that_are_done(
    analyze, task, tmp_path, monkeypatch
):
    output = tmp_path / "out"
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    arguments = [str(PIECE), str(task), str(task / "tokenizer"), str(output)]
    ended = subprocess.run([sys.executable, str(script), *arguments], check=False)
    assert ended.returncode == -signal.SIGKILL
    work = tmp_path / ".out.work" / "counted"
    kept = {path.name: path.stat().st_ino for path in work.iterdir() if path.suffix != ".tmp"}
    assert len(kept) >= 2
    loaded, load = {}, load_counted

    def look(folder):
        loaded[folder.name] = folder.stat().st_ino
        return load(folder)

    monkeypatch.setattr(spread, "load_counted", look)
    found = analyze(output, executor="processes:workers=3")  # with --resume, run_step's default
    assert kept.items() <= loaded.items()
    assert len(loaded) > len(kept)
    assert not work.exists()
    assert found == analyze(tmp_path / "here")
