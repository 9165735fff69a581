"""Locking, emptying and replacing folders, without following links."""

import ctypes
import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from tasc.files.disk import flush

NEW, OLD = "new", "old"  # in a work folder: the artefact being written, and the one it replaces


def owner_of_new(folder: Path) -> int:
    """Return the user id that new files in ``folder`` get: network drives may map it.

    Raises OSError where no file can be created.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_uid


def open_folder(path: Path) -> int:
    """Return a handle of a folder. Raises OSError if ``path`` is a link or not a folder."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def lock(handle: int) -> bool | None:
    """Lock an open folder; False if another process holds the lock, None if there are no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def is_at(path: Path, handle: int) -> bool:
    """Return whether ``path`` is still the open folder."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def remove(path: str | Path, parent: int | None = None) -> None:
    """Delete a file, a link or a folder with its contents, but nothing that a link points to.

    ``path`` is relative to the open folder ``parent`` if there is one. A missing path is ignored.
    """
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(path, dir_fd=parent, follow_symlinks=False).st_mode):
            shutil.rmtree(path, dir_fd=parent)
        else:
            os.unlink(path, dir_fd=parent)


def empty(handle: int, mark: str) -> None:
    """Delete the contents of an open folder.

    The file ``mark`` marks the folder as ours. It goes last, so that a killed run leaves it.
    """
    for name in sorted(os.listdir(handle), key=mark.__eq__):
        remove(name, handle)


def discard(handle: int, folder: Path, mark: str) -> None:
    """Empty the open ``folder`` and delete it, as far as the system allows."""
    with suppress(OSError):
        empty(handle, mark)
        folder.rmdir()


def publish(folder: Path, output: Path) -> None:
    """Rename ``folder`` to ``output``, atomically where the system can swap two names.

    An old output ends up next to ``folder``, as NEW or OLD.
    """
    old = os.path.lexists(output)
    if not (old and _exchange(folder, output)):
        if old:
            output.rename(folder.with_name(OLD))
        folder.rename(output)
    flush(output.parent)


def recover(handle: int, output: Path) -> None:
    """Undo a ``publish`` that was killed halfway, and delete leftovers in the open work folder."""
    if OLD in os.listdir(handle) and not os.path.lexists(output):
        os.rename(OLD, output, src_dir_fd=handle)
    for name in (NEW, OLD):
        remove(name, handle)


def _exchange(a: Path, b: Path) -> bool:
    """Swap two names atomically (Linux); return False where that is not supported."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    at_cwd, exchange = -100, 2
    return bool(renameat2(at_cwd, os.fsencode(a), at_cwd, os.fsencode(b), exchange) == 0)
