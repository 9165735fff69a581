"""Temporary folders of killed runs are swept, those of living ones and of others stay."""

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from tasc.files import scratch as module
from tasc.files.scratch import scratch

HOLD = """
import tempfile, time
from tasc.files.scratch import scratch
with scratch() as folder:
    (folder / "runs").write_text("much")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def base(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_it_is_gone_afterwards_also_when_the_work_fails(base):
    with suppress(RuntimeError), scratch() as folder:
        (folder / "below").mkdir()
        raise RuntimeError
    assert list(base.iterdir()) == []


def test_what_a_killed_run_left_is_swept_and_a_living_one_is_left_alone(base):
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        held = Path(process.stdout.readline().strip())
        with scratch():
            assert (held / "runs").read_text() == "much"
        process.kill()
    assert held.exists()
    with scratch():
        assert not held.exists()
    assert list(base.iterdir()) == []


@pytest.mark.parametrize("deleted", range(5))
def test_what_a_run_left_that_was_killed_as_it_deleted_is_swept(base, monkeypatch, deleted):
    unlink, left = os.unlink, deleted

    def ended(*arguments, **options):
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        unlink(*arguments, **options)

    with suppress(KeyboardInterrupt), scratch() as folder:
        for name in "abc":
            (folder / name).touch()
        monkeypatch.setattr(os, "unlink", ended)
    monkeypatch.setattr(os, "unlink", unlink)
    with scratch():
        pass
    assert list(base.iterdir()) == []


def test_folders_and_links_of_others_are_not_swept(base, monkeypatch):
    (base / "home").mkdir()
    (base / "home" / ".tasc-scratch").touch()
    (base / "tasc-scratch-link").symlink_to(base / "home")
    (base / "tasc-scratch-notes").mkdir()
    (base / "tasc-scratch-notes" / "thesis.txt").write_text("mine")
    with scratch():
        pass
    assert (base / "home" / ".tasc-scratch").exists()
    assert (base / "tasc-scratch-notes" / "thesis.txt").read_text() == "mine"
    (base / "tasc-scratch-notes" / ".tasc-scratch").touch()
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    with scratch():
        assert (base / "tasc-scratch-notes" / "thesis.txt").exists()


def test_without_locks_nothing_is_swept(base, monkeypatch):
    (base / "tasc-scratch-1").mkdir()
    (base / "tasc-scratch-1" / ".tasc-scratch").touch()
    monkeypatch.setattr(module, "lock", lambda handle: None)
    with scratch():
        assert (base / "tasc-scratch-1").exists()
