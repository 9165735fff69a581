"""Work in this process."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tasc.execution import Executor, Result, Task


@dataclass(frozen=True)
class Local:
    """See Executor."""

    shared: Any

    def map(self, work: Callable[[Any, Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """See Executor.map."""
        return (work(self.shared, task) for task in tasks)


@contextmanager
def start(shared: object, _workers: int) -> Iterator[Executor]:
    """Return the executor; there is nothing to start."""
    yield Local(shared)
