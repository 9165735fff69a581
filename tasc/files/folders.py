"""Folders that appear whole or not at all, whoever is killed when. Links are never followed."""

import ctypes
import errno
import fcntl
import glob
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tasc.files.disk import files_below, flush

_LONGEST = 200  # bytes of a name that leave room for what is put around it, of the usual 255


def sibling(output: Path, kind: str) -> Path:
    """Return the hidden name beside ``output`` of what belongs to it."""
    name = os.fsencode(output.name)
    stem = output.name if len(name) <= _LONGEST else hashlib.sha256(name).hexdigest()[:32]
    return output.parent / f".{stem}.{kind}"


def fresh(output: Path, kind: str) -> Path:
    """Return a name beside ``output`` that nobody has, and that says whose process it is of."""
    return sibling(output, f"{kind}-{os.urandom(4).hex()}-{os.getpid()}")


def owner(output: Path) -> int:
    """Return the user whom new folders beside ``output`` belong to; not all systems take our own.

    A folder is made to see; those of killed runs go. Raises OSError where none can be made.
    """
    for left in _left(output, "probe"):
        with suppress(OSError):
            left.rmdir()
    probe = fresh(output, "probe")
    probe.mkdir()
    try:
        return probe.lstat().st_uid
    finally:
        probe.rmdir()


def lock(handle: int) -> bool | None:
    """Lock an open folder; False where another process has, None where locks are not known."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def open_folder(path: Path) -> int:
    """Open a folder itself. Raises OSError where that is a link or no folder."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def is_at(path: Path, handle: int) -> bool:
    """Say whether the open folder is still what has the name ``path``."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def is_folder_of(user: int, path: Path) -> bool:
    """Say whether ``path`` is a folder, and no link to one, that belongs to ``user``."""
    return path.is_dir() and not path.is_symlink() and path.lstat().st_uid == user


def remove(path: Path) -> None:
    """Delete a folder with what is in it, a file, or a link, but nothing that links lead to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def empty(handle: int, mark: str) -> None:
    """Delete all that is in an open folder, whatever has its name by now.

    The file ``mark`` says that the folder is ours: it goes last, in case this is ended halfway.
    """
    for entry in sorted(os.scandir(handle), key=lambda entry: entry.name == mark):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.name, dir_fd=handle)
        else:
            os.unlink(entry.name, dir_fd=handle)


def publish(folder: Path, output: Path, check: Callable[[Path], None]) -> None:
    """Give ``folder`` the name ``output`` in one step, also when there is an old one.

    ``check`` looks at the old one once it has been taken away, when nobody can put another in its
    position, and raises where it must not be deleted: then it is back under its name.
    """
    if not os.path.lexists(output):
        folder.rename(output)
        flush(output.parent)
        return
    if _exchange(folder, output):
        old = folder
    else:  # no atomic swap on this system: the old one waits aside
        old = fresh(output, "old")
        output.rename(old)
    try:
        check(old)
    except BaseException:
        if old != folder:
            old.rename(output)
        elif not _exchange(folder, output):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(output)) from None
        raise
    if old != folder:
        folder.rename(output)
    flush(output.parent)
    with suppress(OSError):
        remove(old)


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
    for file in files_below(folder):
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            os.fchmod(handle, mode)
        finally:
            os.close(handle)


def sweep(output: Path) -> None:
    """Remove what killed runs left: temporary siblings of ours whose process is gone."""
    ours = owner(output)
    for kind in ("new", "old"):
        for left in _left(output, kind):
            if not is_folder_of(ours, left):
                continue
            if kind == "old" and not os.path.lexists(output):
                left.rename(output)
            else:
                with suppress(OSError):
                    remove(left)


def _left(output: Path, kind: str) -> Iterator[Path]:
    """Yield what ``fresh`` named for processes that are gone."""
    for left in output.parent.glob(glob.escape(sibling(output, kind).name) + "-*"):
        pid = left.name.rpartition("-")[2]
        if pid.isdecimal() and (int(pid) == os.getpid() or not _alive(int(pid))):
            yield left


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
