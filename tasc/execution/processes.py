"""Work in several processes of this machine.

The standard library's pool ends as a whole when one of its processes is killed; here a worker is a
process with a pipe, and what is lost with it is the piece that it had in work.
"""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from tasc.execution import Executor, Result, Task, Workers
from tasc.execution.worker import Outcome, Piece, Queue, outcome, prepare

# Spawned, not forked: threads of this process would leave locks behind that nobody opens.
_CONTEXT = get_context("spawn")


class _Worker:
    """A process, and what it has in work; ``piece`` is None where nobody waits for that."""

    def __init__(self, shared: object) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(theirs, shared), daemon=True)
        self.process.start()
        theirs.close()  # so that its end is seen here
        self.busy, self.piece = False, None

    connection: Connection
    piece: Piece | None

    def send(self, work: Callable[..., Any], piece: Piece) -> None:
        """Hand over a piece; raises OSError where the process is gone."""
        self.busy, self.piece = True, piece
        self.connection.send((work, piece.task))

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


class Processes:
    """See Executor."""

    def __init__(self, shared: object, count: int) -> None:
        """Start the workers."""
        self._shared = shared
        self.workers = [_Worker(shared) for _ in range(count)]

    def run(
        self, work: Callable[[Any, Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[int, Result]]:
        """See Executor.run."""
        queue = Queue(tasks)
        try:
            while self._hand_out(work, queue):
                for worker in self._ready():
                    number, done = self._take(worker, queue)
                    if done is None:
                        continue
                    result, error = done
                    if error is not None:
                        raise error
                    yield number, result
        finally:
            for worker in self.workers:
                worker.piece = None  # nobody waits for it any more

    def _hand_out(self, work: Callable[..., Any], queue: Queue) -> bool:
        """Give each worker that is free a piece; say whether any has one."""
        for worker in self.workers:
            if worker.busy:
                continue
            piece = queue.next()
            if piece is None:
                break
            with suppress(OSError):  # its end is read by whoever waits for it
                worker.send(work, piece)
        return any(worker.piece for worker in self.workers)

    def _ready(self) -> list[_Worker]:
        ready = wait([worker.connection for worker in self.workers if worker.busy])
        return [worker for worker in self.workers if worker.connection in ready]

    def _take(self, worker: _Worker, queue: Queue) -> tuple[int, Outcome | None]:
        """Return what a worker has done: None where nobody waits for it, or it is gone."""
        piece = worker.piece
        try:
            done: Outcome = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker)
            if piece:
                queue.lose(piece)
            return 0, None
        worker.busy, worker.piece = False, None
        return (piece.number, done) if piece else (0, None)

    def _replace(self, worker: _Worker) -> None:
        worker.end()
        self.workers[self.workers.index(worker)] = _Worker(self._shared)

    def end(self) -> None:
        """End the workers, whatever they do."""
        for worker in self.workers:
            worker.end()


@contextmanager
def start(shared: object, workers: Workers) -> Iterator[Executor]:
    """Start processes, and end them; what has not begun by then is dropped."""
    pool = Processes(shared, workers.count)
    try:
        yield pool
    finally:
        pool.end()


def _serve(connection: Connection, shared: object) -> None:
    """Work until the process that started this one closes its end, be it by its death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # that process says when it ends
    prepare()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            work, task = connection.recv()
            connection.send(outcome(work, shared, task))
