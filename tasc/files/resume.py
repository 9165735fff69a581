"""The hidden folder beside an output from which a killed run goes on: whose it is, and of what."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasc.errors import InputError
from tasc.files.disk import files_below
from tasc.files.folders import empty, is_at, lock, open_folder, owner, sibling

_KEY = "key"  # the file that says which step's checkpoints these are
_HASH = re.compile(r"[0-9a-f]{64}")
_PATIENCE_S = 1.0  # a program that a killed run was about to start holds its lock until it runs


def work_of(output: Path) -> Path:
    """Return where a run into ``output`` keeps checkpoints, which outlive it if it is ended."""
    return sibling(output, "work")


def output_of(work: Path) -> Path | None:
    """Return the output of a folder that ``work_of`` named; None of any other."""
    output = work.with_name(work.stem.removeprefix("."))
    return output if work_of(output) == work else None


@contextmanager
def resumable(output: Path, key: str, *, insist: bool = False) -> Iterator[Path]:
    """Hold the folder of checkpoints for one run of the step ``key``, and yield its path.

    What another step left there is deleted, or refused where the user does ``insist`` on going on.
    The folder goes when the body is done; when it fails, it stays if there is something to go on
    from. The lock ends with the process, however that ends.

    Raises:
        InputError: another run into ``output`` holds it; it is not one that tasc made; or its
            checkpoints are another step's, with ``insist``.
    """
    work = work_of(output)
    handle = _locked(work, output)
    try:
        held = _checked_key(handle, work, owner(output))
        if insist and held != key and _has_checkpoints(work):
            raise InputError(
                f"the checkpoints in {work} are of a run with other options, data or models, or of "
                "another version: type that run's command again, or leave --resume out, which "
                "begins anew"
            )
        try:
            if held != key:
                empty(handle, _KEY)
                _write_key(handle, key)
            yield work
        except BaseException:
            if not _has_checkpoints(work):
                _delete(handle, work)
            raise
        _delete(handle, work)
    finally:
        os.close(handle)


def _locked(work: Path, output: Path) -> int:
    patience = time.monotonic() + _PATIENCE_S
    while True:  # once more where the run before, ending just now, took the folder away
        with suppress(FileExistsError):
            work.mkdir()
        try:
            handle = open_folder(work)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(_in_the_way(work, error.strerror)) from error
        held = lock(handle)  # None: on a system without locks nobody is kept out
        if held is not False and is_at(work, handle):
            return handle
        os.close(handle)
        if held is False and time.monotonic() > patience:
            raise InputError(
                f"output {output} is being written by another run: wait for it, or name another"
            )
        if held is False:
            time.sleep(_PATIENCE_S / 20)


def _checked_key(handle: int, work: Path, user: int) -> str:
    """Return the key of the step whose checkpoints these are; refuse what is not ours."""
    if os.fstat(handle).st_uid != user:
        raise InputError(_in_the_way(work, "it belongs to another user"))
    held = _read_key(handle)
    if not _HASH.fullmatch(held) and set(os.listdir(handle)) - {_KEY}:
        raise InputError(_in_the_way(work, "it holds files tasc did not write"))
    return held


def _write_key(handle: int, key: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(_KEY, flags, 0o666, dir_fd=handle), "w") as file:  # noqa: PTH123
        file.write(key)
        file.flush()
        os.fsync(file.fileno())


def _in_the_way(work: Path, why: str | None) -> str:
    return f"{work} is no folder of checkpoints ({why}): move it away, or name another output"


def _read_key(handle: int) -> str:
    try:
        file = os.open(_KEY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
        with open(file, "rb") as held:  # noqa: PTH123
            return held.read(65).decode("ascii", "replace")
    except OSError:
        return ""


def _has_checkpoints(work: Path) -> bool:
    files = (path.relative_to(work) for path in files_below(work))
    whole = (n for n in files if not any(part.endswith(".tmp") for part in n.parts))
    return any(name != Path(_KEY) for name in whole)


def _delete(handle: int, work: Path) -> None:
    with suppress(OSError):
        empty(handle, _KEY)
        work.rmdir()
