"""Keep the Hub client and `datasets` from writing to the terminal: the library prints nothing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


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
