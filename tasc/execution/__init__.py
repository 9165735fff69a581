"""The executors by name: where independent pieces of work run. Results do not depend on which.

To add one, write ``NAME.py`` here with a function ``start`` and add a line.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeVar

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")
MOST_LOSSES = 3  # workers that one piece of work may cost


class Executor(Protocol):
    """Runs pieces of work, all of which read the same ``shared`` value that it was started with."""

    def run(
        self, work: Callable[[Any, Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[int, Result]]:
        """Yield the number of each task and ``work(shared, task)``, as soon as that is there.

        ``tasks`` are taken as workers are free for them. ``work`` is a function of a module, so
        that other processes find it. What it raises is raised here. A worker that is killed costs
        the piece that it had in work, which another one does; TascError where that costs
        MOST_LOSSES of them.
        """


@dataclass(frozen=True)
class Workers:
    """What is started."""

    count: int  # pieces of work at a time
    address: str | None = None  # of a running cluster, for executors that know some
    devices: bool = False  # whether each worker wants a device of its own, where machines have some


Start = Callable[[Any, Workers], AbstractContextManager[Executor]]


@dataclass(frozen=True)
class Entry:
    """One executor."""

    label: str  # where it runs, as help and docs show it
    needs: str  # the extra of this package that it needs, "" for none
    # Takes the shared value, which each worker gets once, and the workers; what it returns
    # ends them when it is left.
    start: Start


def _of(module: str) -> Start:
    """Return the ``start`` of a module here, which is imported when it is called."""
    return lambda shared, workers: import_module(f"{__name__}.{module}").start(shared, workers)


EXECUTORS: dict[str, Entry] = {
    "local": Entry("one piece after the other, in this process", "", _of("local")),
    "processes": Entry(
        "several pieces at a time, in processes of this machine", "", _of("processes")
    ),
    "ray": Entry(
        "several pieces at a time, on a Ray cluster: that of --address, or one of this machine",
        "tasc-lm[ray]",
        _of("ray_cluster"),
    ),
}


def executor_help() -> str:
    """Return what the help says of the executors."""
    return "; ".join(f"{name}: {entry.label}" for name, entry in EXECUTORS.items())


def in_order(results: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """Yield what ``Executor.run`` does in the order of the tasks."""
    waiting: dict[int, Result] = {}
    following = 0
    for number, result in results:
        waiting[number] = result
        while following in waiting:
            yield waiting.pop(following)
            following += 1
