"""Temporary folders. A later run deletes those of killed runs."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasc.files.disk import writing
from tasc.files.folders import discard, is_at, lock, open_folder

_PREFIX = "tasc-scratch-"
_MARK = ".tasc-scratch"  # a file that no other program's folder has
_INSTEAD = "set TMPDIR to another folder for temporary files"


@contextmanager
def scratch(base: Path | None = None) -> Iterator[Path]:
    """Yield a new folder below ``base``, by default $TMPDIR, and delete it afterwards.

    Raises StorageError if the disk is full.
    """
    base = base or Path(tempfile.gettempdir())
    with writing(base, instead=_INSTEAD):
        _sweep(base)
        folder, handle = _make(base)
    try:
        with writing(folder, instead=_INSTEAD):
            yield folder
    finally:
        try:
            discard(handle, folder, _MARK)
        finally:
            os.close(handle)


def _make(base: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        with suppress(FileNotFoundError):  # another run's sweep deleted it before the lock
            handle = open_folder(folder)
            if lock(handle) is not False and is_at(folder, handle):
                (folder / _MARK).touch()
                return folder, handle
            os.close(handle)


def _sweep(base: Path) -> None:
    """Delete the scratch folders of this user that no process has locked."""
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # among them: it is a link, or not a folder
            handle = open_folder(folder)
            try:
                names = os.listdir(handle)  # noqa: PTH208
                ours = os.fstat(handle).st_uid == os.geteuid() and (not names or _MARK in names)
                if ours and lock(handle):
                    discard(handle, folder, _MARK)
            finally:
                os.close(handle)
