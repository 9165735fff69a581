"""Keep transformers and what it loads with off the terminal; what matters is raised anyway."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging

from tasc.data.quiet import hushed

_TALKATIVE = ("transformers", "accelerate", "bitsandbytes", "peft", "torch")


@contextmanager
def quiet() -> Iterator[None]:
    """Hide bars, reports and warnings of transformers, PEFT and bitsandbytes in the block."""
    logging.get_verbosity()  # sets up its logger, which would undo what is set before
    bars = logging.disable_progress_bar, logging.enable_progress_bar
    with hushed(_TALKATIVE, logging.is_progress_bar_enabled(), *bars), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
