"""Whether files were replaced since they were read, asked between the steps of an engine."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

EVERY = 1.0  # seconds between two looks
Stamp = tuple[int, int, int] | None


class Watch:
    """Looks at files now and then; what is asked in between costs nothing."""

    def __init__(self, files: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        """Take ``files`` as they are now for those that were read."""
        self.files, self.clock = files, clock
        self.next = clock() + EVERY
        self.stamps = [_stamp(file) for file in files]

    def changed(self) -> bool:
        """Say, once for each change, whether a file is another one; all of them must be there."""
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
        found = file.stat()
    except OSError:  # between two files of that name, or gone
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
