"""The executors by name: where independent pieces of work run. Results do not depend on which.

To add one, write ``NAME.py`` here with a function ``start`` and add a line.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeVar

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs pieces of work, all of which read the same ``shared`` value that it was started with."""

    def map(self, work: Callable[[Any, Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield ``work(shared, task)`` in the order of ``tasks``, as soon as each is there.

        ``work`` is a function of a module, so that other processes find it. What it raises is
        raised here.
        """


Start = Callable[[Any, int], AbstractContextManager[Executor]]


@dataclass(frozen=True)
class Entry:
    """One executor.

    Attributes:
        label: where it runs, as help and docs show it.
        needs: the package that it needs besides this one's own, "" for none.
        start: takes the shared value, which each worker gets once, and the number of workers;
            what it returns ends the workers when it is left.
    """

    label: str
    needs: str
    start: Start


def _of(module: str) -> Start:
    """Return the ``start`` of a module here, which is imported when it is called."""

    def start(shared: object, workers: int) -> AbstractContextManager[Executor]:
        made: AbstractContextManager[Executor] = import_module(f"{__name__}.{module}").start(
            shared, workers
        )
        return made

    return start


EXECUTORS: dict[str, Entry] = {
    "local": Entry("one piece after the other, in this process", "", _of("local")),
    "processes": Entry(
        "several pieces at a time, in processes of this machine", "", _of("processes")
    ),
}


def executor_help() -> str:
    """Return what the help says of the executors."""
    return "; ".join(f"{name}: {entry.label}" for name, entry in EXECUTORS.items())
