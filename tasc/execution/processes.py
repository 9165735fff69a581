"""Work in several processes of this machine."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

from tasc.execution import Executor, Result, Task

_shared: Any = None  # of this worker


@dataclass(frozen=True)
class Processes:
    """See Executor."""

    pool: ProcessPoolExecutor

    def map(self, work: Callable[[Any, Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """See Executor.map."""
        return self.pool.map(partial(_run, work), tasks)


@contextmanager
def start(shared: object, workers: int) -> Iterator[Executor]:
    """Start ``workers`` processes, and end them; what has not begun by then is dropped."""
    # Spawned, not forked: threads of this process would leave locks behind that nobody opens.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _receive, (shared,))
    try:
        yield Processes(pool)
    finally:
        pool.shutdown(cancel_futures=True)


def _receive(shared: object) -> None:
    global _shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it says when it ends
    _shared = shared


def _run(work: Callable[[Any, Task], Result], task: Task) -> Result:
    return work(_shared, task)
