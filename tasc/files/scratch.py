"""Temporary folders that do not outlive their process for long, however that ends."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasc.files.disk import writing
from tasc.files.folders import empty, is_at, is_folder_of, lock, open_folder

_PREFIX = "tasc-scratch-"
_MARK = ".tasc-scratch"  # a file that folders of others do not have


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder below $TMPDIR, which is deleted afterwards; those of killed runs go first.

    Raises:
        StorageError: there is no room left.
    """
    base = Path(tempfile.gettempdir())
    with writing(base, instead=_INSTEAD):
        _sweep(base)
        folder, handle = _make(base)
    try:
        with writing(folder, instead=_INSTEAD):
            yield folder
    finally:
        try:
            _delete(folder, handle)
        finally:
            os.close(handle)


_INSTEAD = "name another position for temporary files with TMPDIR"


def _make(base: Path) -> tuple[Path, int]:
    """Make a folder and lock it, as long as this process lives."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        with suppress(FileNotFoundError):  # another's sweep was here before the lock
            handle = open_folder(folder)
            if lock(handle) is not False and is_at(folder, handle):
                (folder / _MARK).touch()
                return folder, handle
            os.close(handle)


def _sweep(base: Path) -> None:
    """Delete folders of ours that no living process holds."""
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if not is_folder_of(os.geteuid(), folder):
                continue
            handle = open_folder(folder)
            try:
                held = os.listdir(handle)  # noqa: PTH208
                if (not held or _MARK in held) and lock(handle):
                    _delete(folder, handle)
            finally:
                os.close(handle)


def _delete(folder: Path, handle: int) -> None:
    with suppress(OSError):
        empty(handle, _MARK)
        folder.rmdir()
