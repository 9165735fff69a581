"""Detects replaced files between the steps of an engine."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

EVERY = 1.0  # seconds between two checks
Stamp = tuple[int, int, int] | None


class Watch:
    """Checks files at most once per ``EVERY`` seconds."""

    def __init__(self, files: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        """Start from the present state of ``files``."""
        self.files, self.clock = files, clock
        self.next = clock() + EVERY
        self.stamps = [_stamp(file) for file in files]

    def changed(self) -> bool:
        """Return whether a file was replaced since the last change; all files must exist."""
        now = self.clock()
        if now < self.next or not self.files:
            return False
        self.next = now + EVERY
        stamps = [_stamp(file) for file in self.files]
        if stamps == self.stamps or None in stamps:
            return False
        self.stamps = stamps
        return True


def _stamp(file: Path) -> Stamp:
    try:
        stat = file.stat()
    except OSError:  # deleted, or about to be replaced
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
