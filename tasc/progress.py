"""How work reports its progress: the library calls a function, the command line draws a bar."""

from typing import Protocol


class Progress(Protocol):
    """Called after each unit of work. ``total`` is 0 when it is not known beforehand."""

    def __call__(self, description: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` units of ``description`` are finished."""


def silent(description: str, done: int, total: int) -> None:
    """Report nothing."""
