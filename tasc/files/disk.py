"""Durable writes, and one kind of error when the disk is full."""

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasc.errors import StorageError, TascError

# Only writing can fail with these.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_RUST = re.compile(r"\(os error (\d+)\)")  # in the errors of safetensors and tokenizers
_NUMPY = re.compile(r"\d+ requested and \d+ written")  # the error of ndarray.tofile


@contextmanager
def writing(
    path: Path, size: int | None = None, *, instead: str = "choose another output"
) -> Iterator[None]:
    """Raise one kind of error if the disk is full, whichever library was writing to ``path``.

    ``size`` is the final size in bytes; None reports the size of the part on the disk. ``instead``
    is the alternative to freeing space, as an imperative. Raises StorageError if the disk is full
    or read-only, OSError if the system refused something else.
    """
    try:
        yield
    except TascError:
        raise
    except Exception as error:
        cause = system_error(error)
        if cause is None:
            raise
        if cause.errno in _FULL:
            raise StorageError(_line(path, cause, size, instead)) from error
        if cause is error:
            raise
        raise cause from error


def system_error(error: BaseException) -> OSError | None:
    """Return the system's error behind ``error``, None if there is none.

    That is a full disk anywhere in the chain of causes, or ``error`` itself. Libraries in Rust
    raise their own errors with the system's number in the text.
    """
    cause: BaseException | None = error
    while cause is not None:
        os_error = _os_error(cause)
        if os_error is not None and os_error.errno in _FULL:
            return os_error
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return _os_error(error)


def _os_error(error: BaseException) -> OSError | None:
    if isinstance(error, OSError):
        short = error.errno is None and _NUMPY.fullmatch(str(error))
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if short else error
    number = _RUST.search(str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else None


def _line(path: Path, error: OSError, size: int | None, instead: str) -> str:
    folder = next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())
    if size is None:
        written = sum(file.lstat().st_size for file in files_below(path))
        amount = f"{_amount(written)} written"
    else:
        amount = f"{_amount(size)} needed"
    free = _amount(shutil.disk_usage(folder).free)
    what = f"cannot write {error.filename2 or error.filename or path}: {error.strerror}"
    return f"{what} ({amount}, {free} free): {remedy(error, instead)}"


def remedy(error: OSError, instead: str) -> str:
    """Return the fix for a failed write: ``instead``, or freeing space if the disk is full."""
    full = error.errno in _FULL - {errno.EROFS}
    return f"free some space, or {instead}" if full else instead


def _amount(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in order, without links or anything behind them."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(parent, name) for name in sorted(names)):
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def flush(path: Path) -> None:
    """Write a file, or a folder's list of names, to the disk now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some systems cannot sync folders
            raise
    finally:
        os.close(handle)


def flush_below(folder: Path) -> None:
    """Write a folder and everything in it to the disk now, the contents first."""
    for file in files_below(folder):
        flush(file)
    for parent, _, _ in os.walk(folder, topdown=False):
        flush(Path(parent))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file, which replaces ``path`` once it is complete and on the disk."""
    new = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield new
        flush(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    flush(path.parent)
