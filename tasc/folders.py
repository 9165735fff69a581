"""Folders that appear whole or not at all, whoever is killed when, and by one writer at a time."""

import ctypes
import fcntl
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasc.errors import InputError


@contextmanager
def locked(work: Path, output: Path) -> Iterator[None]:
    """Make ``work`` and hold it for one run; the lock ends with the process, however that ends.

    Raises InputError where another run into ``output`` holds it.
    """
    while True:  # once more where the run before, ending just now, took the folder away
        work.mkdir(exist_ok=True)
        try:
            handle = os.open(work, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            if not _lock(handle):
                raise InputError(
                    f"output {output} is being written by another run: wait for it, or name another"
                )
            if _is_at(work, handle):
                yield
                return
        finally:
            os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open folder; False where another process has. Some file systems know no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def publish(folder: Path, output: Path) -> None:
    """Give ``folder`` the name ``output`` in one step, also when there is an old one."""
    if not output.exists():
        folder.rename(output)
        return
    if not _exchange(folder, output):  # no atomic swap on this system: the old one waits aside
        aside = output.parent / f".{output.name}.old-{os.getpid()}"
        output.rename(aside)
        folder.rename(output)
        folder = aside
    shutil.rmtree(folder, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Swap two names atomically (Linux); False where the system or the file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    at_cwd, exchange = -100, 2
    return bool(renameat2(at_cwd, os.fsencode(a), at_cwd, os.fsencode(b), exchange) == 0)


def share(folder: Path, like: Path) -> None:
    """Give every file the mode of ``like``: safetensors leaves its own to the owner alone."""
    mode = like.stat().st_mode
    for file in folder.rglob("*"):
        if file.is_file():
            file.chmod(mode)


def sweep(output: Path) -> None:
    """Remove what killed runs left: temporary siblings whose process is gone."""
    for pattern in ("new", "old", "probe"):
        for left in output.parent.glob(f".{glob.escape(output.name)}.{pattern}-*"):
            pid = left.name.rpartition("-")[2]
            if pid.isdigit() and (int(pid) == os.getpid() or not _alive(int(pid))):
                if pattern == "old" and not output.exists():
                    left.rename(output)
                else:
                    shutil.rmtree(left, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
