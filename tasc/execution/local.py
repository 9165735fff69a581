"""Work in this process."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from tasc.execution import Executor, Result, Task, Workers


@dataclass(frozen=True)
class Local:
    """See Executor."""

    shared: Any

    def run(
        self, work: Callable[[Any, Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[int, Result]]:
        """See Executor.run."""
        return ((number, work(self.shared, task)) for number, task in enumerate(tasks))


def start(shared: object, _workers: Workers) -> AbstractContextManager[Executor]:
    """Return the executor; there is nothing to start."""
    return nullcontext(Local(shared))
