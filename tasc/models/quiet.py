"""Keep transformers and what it loads with off the terminal; what matters is raised anyway."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging as transformers_logging

_TALKATIVE = ("accelerate", "bitsandbytes", "peft", "torch")


@contextmanager
def quiet() -> Iterator[None]:
    """Hide bars, reports and warnings of transformers, PEFT and bitsandbytes in the block."""
    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    logs = {log: log.level for log in map(logging.getLogger, _TALKATIVE)}
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
        for log, before in logs.items():
            log.setLevel(before)
