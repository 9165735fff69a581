"""Silence transformers and its companions; everything that matters raises an error."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging

from tasc.data.quiet import silenced

_TALKATIVE = ("transformers", "accelerate", "bitsandbytes", "peft", "torch")


@contextmanager
def quiet() -> Iterator[None]:
    """Hide progress bars, logs and warnings of transformers, PEFT and bitsandbytes."""
    logging.get_verbosity()  # sets up transformers' logger, which resets earlier settings
    bars = logging.disable_progress_bar, logging.enable_progress_bar
    with silenced(_TALKATIVE, logging.is_progress_bar_enabled(), *bars), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
