"""Work in several processes on this machine.

The standard library's pool fails when one of its processes is killed. Here, each worker is a
process with a pipe, and only its current piece is lost.
"""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from tasc.execution import Executor, Result, Task, Workers
from tasc.execution.worker import Outcome, Piece, Queue, outcome, prepare

# Not forked: locks held by other threads of this process would never be released.
_CONTEXT = get_context("spawn")


class _Worker:
    """A process and its current piece, which is None if its result is no longer needed."""

    def __init__(self, shared: object) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(theirs, shared), daemon=True)
        self.process.start()
        theirs.close()  # so that its death closes the pipe
        self.busy = False
        self.piece: Piece | None = None

    def send(self, work: Callable[..., Any], piece: Piece) -> None:
        """Send a piece; raises OSError if the process is dead."""
        self.busy, self.piece = True, piece
        self.connection.send((work, piece.task))

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


class Processes:
    """Runs pieces in processes, and replaces those that die."""

    def __init__(self, shared: object, count: int) -> None:
        self._shared = shared
        self.workers = [_Worker(shared) for _ in range(count)]

    def run(
        self, work: Callable[[Any, Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[int, Result]]:
        queue = Queue(tasks)
        try:
            while self._hand_out(work, queue):
                ready = wait([worker.connection for worker in self.workers if worker.busy])
                for worker in [worker for worker in self.workers if worker.connection in ready]:
                    number, done = self._take(worker, queue)
                    if done is None:
                        continue
                    result, error = done
                    if error is not None:
                        raise error
                    yield number, result
        finally:
            for worker in self.workers:
                worker.piece = None  # its result is no longer needed

    def _hand_out(self, work: Callable[..., Any], queue: Queue) -> bool:
        """Give each free worker a piece; return whether any worker has one."""
        for worker in self.workers:
            if worker.busy:
                continue
            piece = queue.next()
            if piece is None:
                break
            with suppress(OSError):  # _take replaces a dead worker
                worker.send(work, piece)
        return any(worker.piece for worker in self.workers)

    def _take(self, worker: _Worker, queue: Queue) -> tuple[int, Outcome | None]:
        """Return the outcome of a worker; None if it is not needed, or the worker died."""
        piece = worker.piece
        try:
            done: Outcome = worker.connection.recv()
        except (EOFError, OSError):
            worker.end()
            self.workers[self.workers.index(worker)] = _Worker(self._shared)
            if piece:
                queue.lose(piece)
            return 0, None
        worker.busy, worker.piece = False, None
        return (piece.number, done) if piece else (0, None)


@contextmanager
def start(shared: object, workers: Workers) -> Iterator[Executor]:
    """Start the processes, and terminate them at the end."""
    pool = Processes(shared, workers.count)
    try:
        yield pool
    finally:
        for worker in pool.workers:
            worker.end()


def _serve(connection: Connection, shared: object) -> None:
    """Work until the parent process closes its end of the pipe, or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    prepare()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            work, task = connection.recv()
            connection.send(outcome(work, shared, task))
