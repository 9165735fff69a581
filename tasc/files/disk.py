"""Writing that lasts: files whole and on the disk, and one error where the system refuses."""

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasc.errors import StorageError, TascError

# What only writing can meet, so that no further look is needed at what was going on.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_RUST = re.compile(r"\(os error (\d+)\)")  # in safetensors' and tokenizers' own kinds of error


@contextmanager
def writing(
    path: Path, size: int | None = None, *, instead: str = "name another output"
) -> Iterator[None]:
    """Say in one line what did not fit, whichever library met the end of the disk.

    Args:
        path: the file or folder that is being written.
        size: its bytes; None where only what is there already can be told.
        instead: what the user can do besides making room.

    Raises:
        StorageError: there is no room left, or the path is read-only.
        OSError: the system refused something else.
    """
    try:
        yield
    except TascError:
        raise
    except Exception as error:
        refused = refusal(error)
        if refused is None:
            raise
        if refused.errno in _NO_ROOM:
            raise StorageError(_line(path, refused, size, instead)) from error
        if refused is error:
            raise
        raise refused from error


def refusal(error: BaseException) -> OSError | None:
    """Return what the system refused, if that is what ``error`` is about.

    Libraries in Rust raise errors of their own that name its number, others wrap them.
    """
    return no_room(error) or _refused(error)


def no_room(error: BaseException) -> OSError | None:
    """Return the end of the disk, or its being read-only, that ``error`` is about or came from."""
    cause: BaseException | None = error
    while cause is not None:
        found = _refused(cause)
        if found is not None and found.errno in _NO_ROOM:
            return found
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return None


def _refused(error: BaseException) -> OSError | None:
    if isinstance(error, OSError):
        return error
    number = _RUST.search(str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else None


def _line(path: Path, refused: OSError, size: int | None, instead: str) -> str:
    there = next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
    if size is None:
        written = sum(file.lstat().st_size for file in files_below(path))
        held = f"{_amount(written)} were written"
    else:
        held = f"{_amount(size)} were to be written"
    free = _amount(shutil.disk_usage(there).free)
    what = f"{refused.filename or path} cannot be written: {refused.strerror}"
    return f"{what} ({held}, {free} are free there): {remedy(refused, instead)}"


def remedy(refused: OSError, instead: str) -> str:
    """Say what can be done where the system refused to write: ``instead``, or making room."""
    full = refused.errno in _NO_ROOM - {errno.EROFS}
    return f"make room, or {instead}" if full else instead


def _amount(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in order; no links, and nothing that links lead to."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(parent, name) for name in sorted(names)):
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def flush(path: Path) -> None:
    """Make the system write a file, or a folder's list of names, to the disk now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some know no such call for folders
            raise
    finally:
        os.close(handle)


def flush_below(folder: Path) -> None:
    """Make the system write a folder to the disk with all that is in it, the inside first."""
    for file in files_below(folder):
        flush(file)
    for parent, _, _ in os.walk(folder, topdown=False):
        flush(Path(parent))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a file to write, which takes the name ``path`` once it is whole and on the disk."""
    new = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield new
        flush(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    flush(path.parent)
