"""Nothing that a link leads to is deleted or changed, and nothing that others put there."""

import errno
import os
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from tasc.errors import InputError
from tasc.files import disk, folders
from tasc.files.artefact import MANIFEST, create, fingerprint
from tasc.files.folders import NEW, OLD
from tasc.files.resume import work_of
from tests.cli import refused
from tests.recipes import ROWS, write, write_recipe
from tests.test_artefact import STEP, assert_only, left_work
from tests.test_artefact import make as make_new

make = partial(make_new, force=True)


@pytest.fixture
def thesis(tmp_path):
    """A file of somebody's, in a folder of their own."""
    (tmp_path / "home").mkdir()
    file = tmp_path / "home" / "thesis.txt"
    file.write_text("mine")
    file.chmod(0o600)
    return file


def test_a_work_folder_that_is_a_link_is_refused(tmp_path, thesis):
    work_of(tmp_path / "out").symlink_to(thesis.parent)
    with pytest.raises(InputError, match=r"is not a folder of checkpoints .*: move it"):
        make(tmp_path / "out")
    assert thesis.read_text() == "mine"
    assert {p.name for p in tmp_path.iterdir()} == {".out.work", "home"}


def test_a_work_folder_of_others_is_refused(tmp_path, monkeypatch):
    work = work_of(tmp_path / "out")
    work.write_text("a file")
    with pytest.raises(InputError, match="is not a folder of checkpoints"):
        make(tmp_path / "out")
    work.unlink()
    work.mkdir()
    (work / "thesis.txt").write_text("mine")
    for key in (None, "not a hash"):
        if key:
            (work / "key").write_text(key)
        with pytest.raises(InputError, match="files tasc did not write"):
            make(tmp_path / "out")
    (work / "key").write_text(STEP.key)
    monkeypatch.setattr("tasc.files.folders.owner_of_new", lambda folder: os.geteuid() + 1)
    with pytest.raises(InputError, match="belongs to another user"):
        make(tmp_path / "out")
    assert (work / "thesis.txt").read_text() == "mine"


def test_links_among_checkpoints_are_removed_and_not_followed(tmp_path, thesis):
    work = left_work(tmp_path / "out", "0" * 64)  # of another step
    (work / "folder").symlink_to(thesis.parent)
    (work / "below").mkdir()
    (work / "below" / "file").symlink_to(thesis)
    make(tmp_path / "out")
    assert thesis.read_text() == "mine"
    assert not work.exists()


def test_links_in_an_artefact_change_nothing_elsewhere(tmp_path, thesis):
    with create(tmp_path / "out", STEP, force=True) as workspace:
        (workspace.folder / "link").symlink_to(thesis)
        (workspace.folder / "loop").symlink_to(workspace.folder)
    assert thesis.stat().st_mode & 0o777 == 0o600
    make(tmp_path / "out")
    assert thesis.read_text() == "mine"


@pytest.mark.parametrize("name", [NEW, OLD])
def test_a_link_with_the_name_of_a_leftover_is_not_followed(tmp_path, thesis, name):
    make(tmp_path / "out")
    work = left_work(tmp_path / "out")
    (work / name).symlink_to(thesis.parent)
    make(tmp_path / "out")
    assert thesis.read_text() == "mine"
    assert not (tmp_path / "out").is_symlink()
    assert not work.exists()


@pytest.mark.parametrize("there", [True, False])
def test_an_output_that_is_a_link_is_refused(tmp_path, there):
    if there:
        make(tmp_path / "elsewhere")
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is a link: pass its target"):
        make(tmp_path / "out")
    (tmp_path / "self").symlink_to(tmp_path / "self")
    with pytest.raises(InputError, match="is a link"):
        make(tmp_path / "self")


def test_a_step_of_a_recipe_that_is_a_link_to_itself_is_refused(capsys, tmp_path):
    write(tmp_path / "task" / "train.jsonl", ROWS)
    recipe = write_recipe(tmp_path, "  a: {command: analyze}\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").symlink_to("a")
    given = ("run", recipe, "--data-dir", tmp_path, "--output", tmp_path / "out")
    assert "is a link" in refused(capsys, *given)


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("link", [True, False])
def test_what_came_to_the_output_during_a_run_stays(tmp_path, thesis, monkeypatch, swaps, link):
    if not swaps:
        monkeypatch.setattr(folders, "_exchange", lambda a, b: False)
    output = tmp_path / "out"

    def run() -> None:
        with create(output, STEP, force=True) as workspace:
            (workspace.work / "checkpoint").touch()
            if link:
                output.symlink_to(thesis.parent)
            else:
                thesis.parent.rename(output)

    with pytest.raises(InputError, match=r"out (is a link|holds files)"):
        run()
    assert (output / thesis.name).read_text() == "mine"
    assert output.is_symlink() is link
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {"out", ".out.work"} | ({"home"} if link else set())


@pytest.mark.parametrize("name", ["a\nb", "n" * 255, "ü" * 127, "-rf", "*"])
def test_any_name_that_the_system_takes_is_an_output(tmp_path, name):
    for text in ("first", "second"):
        make(tmp_path / name, text)
    assert_only(tmp_path / name, "second")


def test_names_that_cannot_be_outputs_are_refused_in_one_line(capsys, tmp_path, monkeypatch):
    task = write(tmp_path / "task.jsonl", ROWS)
    (tmp_path / "empty" / "below").mkdir(parents=True)
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "volume")
    for name, word in (
        ("n" * 256, "too long"),
        ("task.jsonl/\n", "cannot write output"),
        ("", "--output is empty"),
        ("/", "is the current folder"),
        ("empty/below/..", "is the current folder"),
        ("volume", "is a mount point: choose a folder below it"),
    ):
        output = name if name in ("", "/") else tmp_path / name
        assert word in refused(capsys, "analyze", task, "--output", output)
    assert {p.name for p in tmp_path.iterdir()} == {"task.jsonl", "empty"}


def test_an_artefact_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    calls = []
    fsync, rename, swap = os.fsync, os.rename, folders._exchange

    def record(call, what, *arguments):
        calls.append((what, Path(arguments[-1]).name))
        return call(*arguments)

    def flushed(handle):
        calls.append(("flush", Path(f"/proc/self/fd/{handle}").readlink().name))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "rename", partial(record, rename, "rename"))
    monkeypatch.setattr(folders, "_exchange", partial(record, swap, "rename"))
    for _ in range(2):  # a new one, and one in place of an old one
        calls.clear()
        with create(tmp_path / "made" / "out", STEP, force=True) as workspace:
            (workspace.folder / "below").mkdir()
            (workspace.folder / "below" / "data.txt").write_text("hello")
        files = [("flush", name) for name in ("data.txt", "below", MANIFEST)]
        named = calls.index(("rename", "out"))
        assert all(file in calls[:named] for file in files)
        assert calls[named - 1] == ("flush", workspace.folder.name)
        assert calls[named + 1] == ("flush", "made")
    assert tmp_path.name not in [name for _, name in calls]


def test_a_new_parent_is_on_the_disk_too(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr("tasc.files.artefact.flush", flushed.append)
    make(tmp_path / "a" / "b" / "out")
    assert set(flushed) == {tmp_path, tmp_path / "a"}


def test_a_file_system_that_cannot_flush_folders_is_written_nevertheless(tmp_path, monkeypatch):
    for number, outcome in (
        (errno.EINVAL, nullcontext()),
        (errno.EIO, pytest.raises(OSError, match="refused")),
    ):
        refuse = Mock(side_effect=OSError(number, "refused"))
        monkeypatch.setattr(os, "fsync", refuse)
        with outcome:
            disk.flush(tmp_path)


def test_only_checkpoints_that_can_be_resumed_from_stay_after_a_failure(tmp_path):
    for make_rest, stays in (
        (lambda work: (work / "answers").mkdir(), False),
        (lambda work: (work / "part.safetensors.17.tmp").touch(), False),
        (lambda work: ((work / "step-1.tmp").mkdir(), (work / "step-1.tmp/x").touch()), False),
        (lambda work: ((work / "answers").mkdir(), (work / "answers/part").touch()), True),
    ):
        with suppress(RuntimeError), create(tmp_path / "out", STEP, force=True) as workspace:
            make_rest(workspace.work)
            raise RuntimeError
        assert workspace.work.exists() is stays


def test_a_folder_is_read_whatever_lies_in_it(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("one")
    before = fingerprint(tmp_path / "model")
    (tmp_path / "model" / "up").symlink_to(tmp_path)
    (tmp_path / "model" / "self").symlink_to("self")
    os.mkfifo(tmp_path / "model" / "pipe")
    assert fingerprint(tmp_path / "model") == before
    for odd in (tmp_path / "model" / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match="neither a file nor a folder"):
            fingerprint(odd)
