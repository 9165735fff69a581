"""Keeping other libraries from printing to the terminal."""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import RLock

_STDERR = 2
_stderr = RLock()  # threads share the descriptor


@contextmanager
def captured_stderr() -> Iterator[Callable[[], object]]:
    """Capture the stderr of native code during the block, and print it afterwards.

    Yields a function that drops the output so far.
    """
    with _stderr, tempfile.TemporaryFile(buffering=0) as file:
        try:
            terminal = os.dup(_STDERR)
        except OSError:  # stderr is closed
            yield lambda: None
            return
        try:
            os.dup2(file.fileno(), _STDERR)
            yield lambda: file.truncate(file.seek(0))
        finally:
            os.dup2(terminal, _STDERR)
            os.close(terminal)
            file.seek(0)
            if text := file.read():
                os.write(_STDERR, text)


@contextmanager
def silenced(
    loggers: Sequence[str], shown: bool, disable: Callable[[], object], enable: Callable[[], object]
) -> Iterator[None]:
    """Silence loggers and progress bars during the block; ``shown`` bars return afterwards."""
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
    """Hide the Hub client's progress bars and retry messages during the block."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    shown = not are_progress_bars_disabled()
    return silenced(["huggingface_hub"], shown, disable_progress_bars, enable_progress_bars)


@contextmanager
def quiet_datasets() -> Iterator[None]:
    """Hide the progress bars and messages of `datasets` and of the Hub client."""
    import datasets

    shown = datasets.utils.logging.is_progress_bar_enabled()
    bars = datasets.disable_progress_bars, datasets.enable_progress_bars
    with no_bars(), silenced(["datasets"], shown, *bars):
        yield
