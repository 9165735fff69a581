"""Keep other libraries from writing to the terminal: the library prints nothing."""

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import IO

_STDERR = 2
_stderr = RLock()  # the descriptor belongs to the process, so threads take turns


@dataclass
class Held:
    """What was written to stderr meanwhile; ``drop`` it, or it is written in the end."""

    file: IO[bytes]

    def drop(self) -> None:
        """Forget it."""
        self.file.seek(0)
        self.file.truncate()


@contextmanager
def held_stderr() -> Iterator[Held]:
    """Hold back what native code writes to stderr while the block runs; written in the end."""
    with _stderr, tempfile.TemporaryFile(buffering=0) as file:
        try:
            terminal = os.dup(_STDERR)
        except OSError:  # it is closed
            yield Held(file)
            return
        os.dup2(file.fileno(), _STDERR)
        try:
            yield Held(file)
        finally:
            os.dup2(terminal, _STDERR)
            os.close(terminal)
            file.seek(0)
            if text := file.read():
                os.write(_STDERR, text)


@contextmanager
def no_bars() -> Iterator[None]:
    """Hide the Hub client's progress bars and retry messages while the block runs."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    log = logging.getLogger("huggingface_hub")
    level, hidden = log.level, are_progress_bars_disabled()
    log.setLevel(logging.CRITICAL)
    disable_progress_bars()
    try:
        yield
    finally:
        log.setLevel(level)
        if not hidden:
            enable_progress_bars()


@contextmanager
def quiet_datasets() -> Iterator[None]:
    """Hide the bars and messages of `datasets`, and of the Hub client below it."""
    import datasets

    bars = datasets.utils.logging.is_progress_bar_enabled()
    level = datasets.utils.logging.get_verbosity()
    datasets.utils.logging.set_verbosity(datasets.utils.logging.CRITICAL)
    datasets.disable_progress_bars()
    try:
        with no_bars():
            yield
    finally:
        datasets.utils.logging.set_verbosity(level)
        if bars:
            datasets.enable_progress_bars()
