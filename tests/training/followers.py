"""What a process beside the first does in tests; in a module of its own, which loads little."""

import os
import signal

from tasc.errors import InputError


def refuse(said: str) -> None:
    raise InputError(f"{said}: choose another")


def fail(said: str) -> None:
    raise LookupError(said)


def kill(_said: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def add(_said: str) -> None:
    """Take part in what the first process does."""
    import torch

    from tasc.training import processes

    mine = processes.group()
    mine.add_up([torch.full((2,), 2.0), torch.ones(3, 2)])
    mine.of_first("mine")
    mine.total(0.25)
