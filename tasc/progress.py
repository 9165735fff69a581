"""Reporting progress: the library calls a function, the command line shows a bar."""

from typing import Protocol


class Progress(Protocol):
    """Called after each unit of work. ``total`` is 0 if it is not known in advance."""

    def __call__(self, description: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` units of ``description`` are finished."""


def silent(description: str, done: int, total: int) -> None:
    """Report nothing."""
