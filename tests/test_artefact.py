import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pytest

from tasc import environment
from tasc.errors import InputError, IntegrityError
from tasc.files import artefact
from tasc.files.artefact import (
    MANIFEST,
    Step,
    check_output,
    create,
    fingerprint,
    read_manifest,
    up_to_date,
)
from tasc.files.folders import NEW, OLD
from tasc.files.resume import resumable, work_of

STEP = Step("demo", {"size": 1, "model": "somewhere"}, {"model": "abc"})


def fail(output: Path, name: str, *, in_work: bool = False) -> None:
    with suppress(RuntimeError), create(output, STEP, force=True) as workspace:
        ((workspace.work if in_work else workspace.folder) / name).write_text("half")
        raise RuntimeError


def make(output: Path, text: str = "hello", step: Step = STEP, *, force: bool = False) -> None:
    with create(output, step, force=force, seed=3) as workspace:
        (workspace.folder / "data.txt").write_text(text)


def assert_only(output: Path, text: str) -> None:
    assert (output / "data.txt").read_text() == text
    assert [p.name for p in output.parent.iterdir()] == [output.name]


def left_work(output: Path, key: str = STEP.key) -> Path:
    """Make a folder of checkpoints as a killed run of the step leaves it."""
    work = work_of(output)
    work.mkdir()
    (work / "key").write_text(key)
    return work


def test_an_artefact_says_what_made_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/bin/tasc", "demo", "--size", "1"])
    monkeypatch.setattr(environment, "PACKAGES", ("torch", "no-such-package"))
    make(tmp_path / "out")
    manifest = read_manifest(tmp_path / "out")
    assert manifest["command"] == "demo"
    assert manifest["command_line"] == ["tasc", "demo", "--size", "1"]
    assert manifest["arguments"] == STEP.arguments
    assert manifest["seed"] == 3
    assert list(manifest["files"]) == ["data.txt"]
    packages = manifest["environment"]["packages"]
    assert packages == {"torch": version("torch"), "no-such-package": None}
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_step_is_up_to_date_when_inputs_hash_the_same_wherever_they_lie(tmp_path):
    make(tmp_path / "out")
    assert up_to_date(tmp_path / "out", STEP)
    moved = Step("demo", {"size": 1, "model": "elsewhere"}, {"model": "abc"})
    assert up_to_date(tmp_path / "out", moved)
    assert not up_to_date(tmp_path / "out", Step("demo", {"size": 2}, {"model": "abc"}))
    assert not up_to_date(tmp_path / "out", Step("demo", STEP.arguments, {"model": "abd"}))
    assert not up_to_date(tmp_path / "none", STEP)
    (tmp_path / "out" / "data.txt").unlink()
    assert not up_to_date(tmp_path / "out", STEP)


def test_an_existing_artefact_needs_force(tmp_path):
    make(tmp_path / "out", "old")
    with pytest.raises(InputError, match="already exists: pass --force"):
        make(tmp_path / "out", "new")
    make(tmp_path / "out", "new", force=True)
    assert_only(tmp_path / "out", "new")


@pytest.mark.parametrize("name", ["thesis.txt", MANIFEST])
def test_a_foreign_folder_is_never_touched(tmp_path, name):
    (tmp_path / name).write_text('{"manifest_version": 3}')
    with pytest.raises(InputError, match="did not write"):
        make(tmp_path, force=True)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [
        (name, '{"manifest_version": 3}')
    ]


def test_a_failure_leaves_the_old_artefact_and_nothing_beside_it(tmp_path):
    make(tmp_path / "out", "old")
    fail(tmp_path / "out", "data.txt")
    assert_only(tmp_path / "out", "old")


def test_checkpoints_survive_a_failure_but_only_for_the_same_step(tmp_path):
    fail(tmp_path / "out", "checkpoint", in_work=True)
    with create(tmp_path / "out", STEP, force=False) as workspace:
        assert (workspace.work / "checkpoint").read_text() == "half"
    fail(tmp_path / "out", "checkpoint", in_work=True)
    other = Step("demo", {"size": 9}, {})
    with create(tmp_path / "out", other, force=True) as workspace:
        assert not (workspace.work / "checkpoint").exists()


def test_unusable_outputs_are_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        check_output(tmp_path / "file", force=True)
    for output in (tmp_path / "file" / "below", Path("/proc/nothing/here")):
        with pytest.raises(InputError, match="cannot write output"):
            check_output(output, force=False)
    check_output(tmp_path / "not" / "there" / "yet", force=False)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_the_folder_that_one_is_in_is_no_output(tmp_path, monkeypatch):
    (tmp_path / "in" / "side").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "in" / "side")
    for output in (Path(), Path(".."), tmp_path / "in" / "side"):
        with pytest.raises(InputError, match="is the current folder or above it: choose one below"):
            check_output(output, force=True)
    check_output(Path("out"), force=False)
    check_output(Path("../beside"), force=False)


@pytest.mark.parametrize("name", ["out", "out [1]"])
@pytest.mark.parametrize("key", [STEP.key, "0" * 64])
def test_the_half_of_an_artefact_that_a_killed_run_left_is_removed(tmp_path, name, key):
    left = left_work(tmp_path / name, key) / NEW
    left.mkdir()
    (left / "half.txt").write_text("half")
    make(tmp_path / name)
    assert_only(tmp_path / name, "hello")
    assert {p.name for p in (tmp_path / name).iterdir()} == {"data.txt", MANIFEST}


def test_every_file_can_be_read_by_those_who_may_read_the_manifest(tmp_path):
    with create(tmp_path / "out", STEP, force=False) as workspace:
        (workspace.folder / "below").mkdir()
        (workspace.folder / "below" / "own").touch(mode=0o600)  # as safetensors leaves its files
    modes = {p.stat().st_mode for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert len(modes) == 1


@pytest.mark.parametrize("key", [STEP.key, "0" * 64])
def test_an_artefact_that_a_killed_process_had_set_aside_comes_back(tmp_path, key):
    make(tmp_path / "out")
    (tmp_path / "out").rename(left_work(tmp_path / "out", key) / OLD)
    fail(tmp_path / "out", "half.txt")
    assert_only(tmp_path / "out", "hello")


@pytest.mark.parametrize("fails", [False, True])
def test_a_second_run_into_one_folder_is_refused_until_the_first_has_ended(tmp_path, fails):
    ends = pytest.raises(RuntimeError) if fails else nullcontext()
    with ends, create(tmp_path / "out", STEP, force=True) as workspace:
        (workspace.folder / "data.txt").write_text("first")
        (workspace.work / "checkpoint").write_text("first")
        for step in (STEP, Step("demo", {"size": 9}, {})):
            with pytest.raises(InputError, match="another run is writing"):
                make(tmp_path / "out", "second", step, force=True)
        assert (workspace.work / "checkpoint").read_text() == "first"
        if fails:
            raise RuntimeError
    make(tmp_path / "out", "second", force=True)
    assert_only(tmp_path / "out", "second")


def test_a_run_that_waits_at_the_door_does_not_work_in_a_folder_that_is_gone(tmp_path, monkeypatch):
    work, lock = tmp_path / ".out.work", fcntl.flock

    def slow(handle: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        shutil.rmtree(work)  # as the run before does at its end
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    with create(tmp_path / "out", STEP, force=False) as workspace:
        assert workspace.work.is_dir()


def test_what_a_run_made_that_ended_at_the_door_is_refused_before_any_work(tmp_path, monkeypatch):
    own = resumable

    def late(output, key, **options):
        monkeypatch.setattr(artefact, "resumable", own)
        make(output, "first")
        return own(output, key, **options)

    monkeypatch.setattr(artefact, "resumable", late)
    refused = pytest.raises(InputError, match="pass --force to replace it")
    with refused, create(tmp_path / "out", STEP, force=False):
        pytest.fail("it works")
    assert_only(tmp_path / "out", "first")


def test_a_file_system_without_locks_is_written_nevertheless(tmp_path, monkeypatch):
    refused = Mock(side_effect=OSError(errno.ENOLCK, "no locks available"))
    monkeypatch.setattr(fcntl, "flock", refused)
    make(tmp_path / "out")
    assert_only(tmp_path / "out", "hello")


def test_a_name_that_is_not_utf8_has_a_fingerprint(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    assert fingerprint(tmp_path)


def test_fingerprints_follow_contents(tmp_path):
    for name, text in (("a", "hello"), ("b", "hello"), ("c", "other")):
        make(tmp_path / name, text)
    a, b, c = (fingerprint(tmp_path / name) for name in "abc")
    assert a == b != c
    for name in "ac":
        (tmp_path / name / MANIFEST).unlink()
    assert fingerprint(tmp_path / "a") != fingerprint(tmp_path / "c")


ENDLESS = """
import sys
from pathlib import Path
from tasc.files.artefact import Step, create
step = Step("demo", {}, {})
for i in range(100000):
    with create(Path(sys.argv[1]), step, force=True) as workspace:
        for part in range(20):
            (workspace.folder / f"{part}.txt").write_text(str(i))
    print(i, flush=True)
"""


def test_a_kill_at_any_moment_leaves_a_whole_artefact(tmp_path):
    output = tmp_path / "out"
    command = [sys.executable, "-c", ENDLESS, str(output)]
    for delay in (0.0, 0.003, 0.007, 0.013, 0.02, 0.031):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()  # at least one artefact is whole
            time.sleep(delay)
            process.kill()
        manifest = json.loads((output / MANIFEST).read_text())
        parts = {(output / name).read_text() for name in manifest["files"]}
        assert len(manifest["files"]) == 20
        assert len(parts) == 1, "files of two runs are mixed"
    make(output, "last", force=True)
    assert_only(output, "last")  # what killed runs left is gone


@pytest.mark.parametrize("content", ["3", "[]", "null", "{", "\x00"])
def test_a_manifest_that_is_no_object_is_refused(tmp_path, content):
    (tmp_path / MANIFEST).write_text(content)
    for read in (read_manifest, fingerprint):
        with pytest.raises(IntegrityError, match=r"damaged .*run again"):
            read(tmp_path)
