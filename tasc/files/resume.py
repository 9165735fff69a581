"""The hidden folder next to an output that holds the checkpoints of a killed run."""

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasc.errors import InputError
from tasc.files import folders
from tasc.files.disk import files_below

_KEY = "key"  # the file with the key of the step that wrote the checkpoints
_LONGEST = 200  # bytes of a name, so that it still fits into the usual 255 with ours around it
_HASH = re.compile(r"[0-9a-f]{64}")
# Child processes of a killed run hold its lock for a moment.
_ATTEMPTS = 20
_WAIT_S = 0.05


def work_of(output: Path) -> Path:
    """Return the folder for the checkpoints of runs that write ``output``."""
    name = os.fsencode(output.name)
    stem = output.name if len(name) <= _LONGEST else hashlib.sha256(name).hexdigest()[:32]
    return output.parent / f".{stem}.work"


@contextmanager
def resumable(output: Path, key: str, *, insist: bool = False) -> Iterator[Path]:
    """Lock the work folder of ``output`` for a run of the step ``key``, and yield its path.

    Checkpoints of another step are deleted; with ``insist`` they raise an error. The folder is
    deleted after the body. After a failure it stays if it holds checkpoints. Raises InputError if
    another run holds the lock, or the folder is not one of ours.
    """
    work = work_of(output)
    handle = _open_locked(work, output)
    try:
        stored_key = _checked_key(handle, work)
        folders.recover(handle, output)
        if insist and stored_key != key and _has_checkpoints(work):
            raise InputError(
                f"the checkpoints in {work} belong to a run with other options, data or models, or "
                "of another version: repeat that run's command, or drop --resume to start again"
            )
        ended = False
        try:
            if stored_key != key:
                folders.empty(handle, _KEY)
                _write_key(handle, key)
            yield work
            ended = True
            folders.discard(handle, work, _KEY)
        except BaseException:
            folders.remove(folders.NEW, handle)
            if ended or not _has_checkpoints(work):
                folders.discard(handle, work, _KEY)
            raise
    finally:
        os.close(handle)


def began(work: Path) -> float:
    """Return when the run in ``work`` began, in seconds of the epoch; a resumed run began once."""
    return (work / _KEY).stat().st_mtime


def _open_locked(work: Path, output: Path) -> int:
    for _ in range(_ATTEMPTS):
        with suppress(FileExistsError):
            work.mkdir()
        try:
            handle = folders.open_folder(work)
        except FileNotFoundError:  # another run has just ended and deleted it
            continue
        except OSError as error:
            raise InputError(_not_ours(work, error.strerror)) from error
        locked = folders.lock(handle)  # None: there are no locks, so nothing can be excluded
        if locked is not False and folders.is_at(work, handle):
            return handle
        os.close(handle)
        if locked is False:
            time.sleep(_WAIT_S)
    raise InputError(f"another run is writing {output}: wait for it, or choose another output")


def _checked_key(handle: int, work: Path) -> str:
    """Return the key of the step that wrote the checkpoints, "" in a new folder."""
    if os.fstat(handle).st_uid != folders.owner_of_new(work.parent):
        raise InputError(_not_ours(work, "it belongs to another user"))
    key = ""
    with suppress(OSError):
        file = os.open(_KEY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
        with open(file, "rb") as contents:  # noqa: PTH123
            key = contents.read(65).decode("ascii", "replace")
    if not _HASH.fullmatch(key) and set(os.listdir(handle)) - {_KEY}:
        raise InputError(_not_ours(work, "it holds files tasc did not write"))
    return key


def _not_ours(work: Path, reason: str | None) -> str:
    return f"{work} is not a folder of checkpoints ({reason}): move it, or choose another output"


def _write_key(handle: int, key: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(_KEY, flags, 0o666, dir_fd=handle), "w") as file:  # noqa: PTH123
        file.write(key)
        file.flush()
        os.fsync(file.fileno())


def _has_checkpoints(work: Path) -> bool:
    names = {file.relative_to(work) for file in files_below(work)} - {Path(_KEY)}
    return any(not any(part.endswith(".tmp") for part in name.parts) for name in names)
