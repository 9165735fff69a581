"""The executors, which run independent pieces of work. Results do not depend on the executor.

To add one, write ``NAME.py`` here with a function ``start`` and add an entry to EXECUTORS.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
MOST_LOSSES = 3  # workers that may die on one piece of work


class Executor(Protocol):
    """Runs pieces of work that read the same ``shared`` value."""

    def run(
        self, work: Callable[[Any, Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[int, Result]]:
        """Yield the number of each task and ``work(shared, task)``, as soon as it is done.

        ``tasks`` are consumed as workers become free. ``work`` is a function of a module, so that
        it can be pickled; its exceptions are raised here. If a worker dies, another one repeats its
        piece. Raises TascError if MOST_LOSSES workers die on one piece.
        """


@dataclass(frozen=True)
class Workers:
    """The number and kind of workers."""

    count: int  # pieces of work in parallel
    address: str | None = None  # of a running cluster, for executors that use one
    devices: bool = False  # whether each worker gets its own GPU, if there are any


@dataclass(frozen=True)
class Local:
    """Runs pieces one after the other, in this process."""

    shared: Any

    def run(
        self, work: Callable[[Any, Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[int, Result]]:
        return ((number, work(self.shared, task)) for number, task in enumerate(tasks))


Start = Callable[[Any, Workers], AbstractContextManager[Executor]]


@dataclass(frozen=True)
class Entry:
    """One executor."""

    label: str  # description for help and docs
    needs: str  # requirement to install, "" for none
    start: Start  # from the shared value, which each worker gets once


def _of(module: str) -> Start:
    return lambda shared, workers: import_module(f"{__name__}.{module}").start(shared, workers)


EXECUTORS: dict[str, Entry] = {
    "local": Entry(
        "one piece at a time, in this process", "", lambda shared, _: nullcontext(Local(shared))
    ),
    "processes": Entry(
        "several pieces in parallel, in processes on this machine", "", _of("processes")
    ),
    "ray": Entry(
        "several pieces in parallel, on a Ray cluster: that of address, or a new local one",
        "tasc-lm[ray]",
        _of("ray_cluster"),
    ),
}


def executor_help() -> str:
    """Return a description of the executors for help texts."""
    return "; ".join(f"{name}: {entry.label}" for name, entry in EXECUTORS.items())


def in_order(results: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """Yield the results of ``Executor.run`` in the order of the tasks."""
    waiting: dict[int, Result] = {}
    following = 0
    for number, result in results:
        waiting[number] = result
        while following in waiting:
            yield waiting.pop(following)
            following += 1
