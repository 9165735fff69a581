"""What a process beside the first does in tests; in a module of its own, which loads little."""

import os
import signal
from typing import TYPE_CHECKING

from tasc.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def refuse(said: str) -> None:
    """Raise an error of the user."""
    raise InputError(f"{said}: choose another")


def fail(said: str) -> None:
    """Raise an error of the program."""
    raise LookupError(said)


def kill(_said: str) -> None:
    """End without a word."""
    os.kill(os.getpid(), signal.SIGKILL)


def add(_said: str) -> None:
    """Take part in what the first process does."""
    import torch

    from tasc.training import processes

    mine = processes.group()
    mine.add_up([torch.full((2,), 2.0), torch.ones(3, 2)])
    mine.of_first("mine")
    mine.total(0.25)


def model(folder: object) -> "PreTrainedModel":
    """Load a model."""
    from tasc.models.load import load_model

    return load_model(str(folder), "float32")


def hold(folder: str) -> None:
    """Hold a share of a model, and help the first process to gather it."""
    from tasc.training import sharding

    held = model(folder)
    sharding.shard(held)
    assert sharding.gathered(dict(held.named_parameters())) == {}
