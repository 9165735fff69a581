"""A full disk is one line that says what did not fit, whichever library was writing."""

import errno
import os
import re
import resource
import sys
import tempfile
from contextlib import contextmanager, suppress
from unittest.mock import Mock

import pytest
from safetensors import SafetensorError

from tasc.errors import InputError, StorageError
from tasc.files.disk import remedy, replacing, system_error, writing
from tasc.models.folder import disk_cache
from tests.cli import refused, tasc
from tests.pico import make_base, make_tokenizer
from tests.recipes import ROWS, write

FULL = "No space left on device"


def wrapped(inner: BaseException) -> Exception:
    """An error as `datasets` raises it: a kind of its own, with the reason behind it."""
    try:
        raise RuntimeError("an error occurred while generating the dataset") from inner
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, FULL),
        SafetensorError("Error while serializing: I/O error: " + FULL + " (os error 28)"),
        Exception(FULL + " (os error 28)"),  # tokenizers
        OSError("32768 requested and 11800 written"),  # numpy
        wrapped(OSError(errno.ENOSPC, FULL)),
    ],
)
def test_what_any_library_says_of_a_full_disk_is_one_error(tmp_path, error):
    (tmp_path / "before").write_bytes(bytes(1_500_000))
    with pytest.raises(StorageError) as told, writing(tmp_path / "file", 2_500_000):
        raise error
    line = str(told.value)
    assert f"file: {FULL} (2.5 MB needed, " in line
    assert "MB free): free some space, or choose another output" in line
    with pytest.raises(StorageError, match=r"1\.5 MB written"), writing(tmp_path):
        raise error


@pytest.mark.parametrize("error", [ValueError("no"), OSError("no model"), InputError("no column")])
def test_other_errors_stay_what_they_are(tmp_path, error):
    with pytest.raises(type(error)) as same, writing(tmp_path):
        raise error
    assert same.value is error


def test_another_refusal_is_an_error_of_the_system_and_a_bug_stays_a_bug(tmp_path):
    with pytest.raises(FileNotFoundError), writing(tmp_path):
        raise Exception("No such file or directory (os error 2)")
    assert system_error(wrapped(FileNotFoundError(errno.ENOENT, "no such file"))) is None


def test_a_copy_that_fails_is_told_by_its_own_name(tmp_path):
    with pytest.raises(StorageError, match="cannot write to:"), writing(tmp_path):
        raise OSError(errno.ENOSPC, FULL, "from", None, "to")


def test_a_file_that_is_replaced_is_whole_or_as_it_was(tmp_path, monkeypatch):
    order = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("flush"), fsync(handle)))
    path = tmp_path / "cache.json"
    with replacing(path) as new:
        new.write_text("first")
        assert order == []
    assert order == ["flush", "flush"]
    with suppress(RuntimeError), replacing(path) as new:
        new.write_text("half")
        raise RuntimeError
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


@contextmanager
def limited(size):
    """Let the system refuse files beyond a size, as a quota does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    sys.dont_write_bytecode = True  # Python keeps a module that is cut short
    try:
        yield
    finally:  # before pytest writes on, maybe into a file
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = False


BASE = ("--model", "base", "--batch-size", 4, "--effective-batch", 4)


@pytest.mark.parametrize(
    ("command", "size"),
    [
        (("analyze",), 2_000),
        (("augment", "--tokenizer", "base", "--budget", 2), 2_000),  # tokenizers
        (("augment", "--tokenizer", "base", "--budget", 2), 0),
        (("index", "--tokenizer", "base"), 500),
        (("base", "--vocabulary", 300, "--epochs", 1, "--block", 64), 100_000),  # safetensors
        (("finetune", *BASE), 50_000),
        (("finetune", *BASE, "--draft-head", "--max-new-tokens", 4), 50_000),
    ],
)
def test_what_does_not_fit_is_one_line_and_leaves_nothing(
    capsys, tmp_path, monkeypatch, command, size
):
    monkeypatch.chdir(tmp_path)
    make_base(tmp_path / "base")
    write(tmp_path / "task.jsonl", ROWS[:12])
    before = {p.name for p in tmp_path.iterdir()}
    with limited(size):
        code, out, err = tasc(capsys, command[0], "task.jsonl", *command[1:], "--output", "out")
    assert (code, out) == (2, ""), err
    line = err.strip().splitlines()[-1]
    assert re.search(r"cannot write \S+: File too large \(", line)
    assert "MB free): free some space, or choose another" in line
    left = {p.name for p in tmp_path.iterdir()} - before
    assert left <= ({".out.work"} if "--draft-head" in command else set())  # answers are kept


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EPERM])
def test_room_is_made_where_room_is_missing(number):
    told = remedy(OSError(number, ""), "choose another")
    full = number in (errno.ENOSPC, errno.EDQUOT)
    assert told == ("free some space, or choose another" if full else "choose another")


def test_a_full_temporary_folder_is_one_line(capsys, tmp_path, monkeypatch):
    task = write(tmp_path / "task.jsonl", ROWS)
    monkeypatch.setattr(tempfile, "mkdtemp", Mock(side_effect=OSError(errno.ENOSPC, FULL)))
    assert "set TMPDIR" in refused(capsys, "analyze", task, "--output", tmp_path / "out")


def test_a_cache_that_cannot_be_written_costs_only_the_caching(tmp_path):
    path = tmp_path / "cache" / "entry.json"
    with limited(1_000):
        disk_cache.write(path, {"seconds": "9" * 2_000}, {})
    assert not path.exists()


def test_a_tokenizer_is_made_in_a_folder_that_went_away(capsys, tmp_path, monkeypatch):
    """The error of a library in Rust, outside of any position that expects one."""
    gone = Mock(side_effect=Exception("No such file or directory (os error 2)"))
    monkeypatch.setattr("tasc.commands.calls.index", gone)
    task = write(tmp_path / "task.jsonl", ROWS)
    given = ("--tokenizer", make_tokenizer(tmp_path / "tok"), "--output", tmp_path / "out")
    line = refused(capsys, "index", task, *given)
    assert line.startswith("error: system error: ")
    assert "No such file or directory" in line
