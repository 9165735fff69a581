"""Keep other libraries from writing to the terminal: the library prints nothing."""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
def hushed(
    loggers: Sequence[str], shown: bool, disable: Callable[[], object], enable: Callable[[], object]
) -> Iterator[None]:
    """Silence loggers and progress bars in the block; bars come back if they were ``shown``."""
    before = {log: log.level for log in map(logging.getLogger, loggers)}
    for log in before:
        log.setLevel(logging.CRITICAL)
    disable()
    try:
        yield
    finally:
        for log, level in before.items():
            log.setLevel(level)
        if shown:
            enable()


def no_bars() -> AbstractContextManager[None]:
    """Hide the Hub client's progress bars and retry messages while the block runs."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    shown = not are_progress_bars_disabled()
    return hushed(["huggingface_hub"], shown, disable_progress_bars, enable_progress_bars)


@contextmanager
def quiet_datasets() -> Iterator[None]:
    """Hide the bars and messages of `datasets`, and of the Hub client below it."""
    import datasets

    shown = datasets.utils.logging.is_progress_bar_enabled()
    bars = datasets.disable_progress_bars, datasets.enable_progress_bars
    with no_bars(), hushed(["datasets"], shown, *bars):
        yield
