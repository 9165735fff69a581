"""Work on a Ray cluster: one that runs already, or one of this machine for the time."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tasc.errors import UnavailableError
from tasc.execution import Executor, Result, Task, Workers
from tasc.execution.worker import Outcome, Piece, Queue, outcome, prepare


class _Worker:
    """What Ray makes an actor of: a process on some machine of the cluster."""

    def __init__(self, shared: object) -> None:
        prepare()
        self.shared = shared

    def run(self, work: Callable[[Any, Any], Any], task: object) -> Outcome:
        return outcome(work, self.shared, task)


@dataclass(frozen=True)
class Ray:
    """See Executor."""

    ray: Any  # the package
    make: Callable[[], Any]  # starts a worker
    workers: list[Any]  # handles of those that run

    def run(
        self, work: Callable[[Any, Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[int, Result]]:
        """See Executor.run."""
        queue, free = Queue(tasks), list(self.workers)
        running: dict[Any, tuple[Any, Piece]] = {}
        while True:
            while free and (piece := queue.next()):
                worker = free.pop()
                running[worker.run.remote(work, piece.task)] = worker, piece
            if not running:
                return
            (ready,), _ = self.ray.wait(list(running))
            worker, piece = running.pop(ready)
            try:
                result, error = self.ray.get(ready)
            except self.ray.exceptions.RayActorError:
                free.append(self._replaced(worker))
                queue.lose(piece)
                continue
            free.append(worker)
            if error is not None:
                raise error
            yield piece.number, result

    def _replaced(self, worker: object) -> Any:  # noqa: ANN401
        self.workers[self.workers.index(worker)] = made = self.make()
        return made


@contextmanager
def start(shared: object, workers: Workers) -> Iterator[Executor]:
    """Join a cluster, or start one of this machine; start workers there, and end them.

    Raises:
        UnavailableError: Ray is not installed, or no cluster is at the address.
    """
    ray = _package(alone=workers.address is None)
    with _cluster(ray, workers):
        devices = int(workers.devices and bool(ray.cluster_resources().get("GPU")))
        kind = ray.remote(num_cpus=1, num_gpus=devices, max_restarts=0)(_Worker)
        held = ray.put(shared)
        made = Ray(ray, lambda: kind.remote(held), [])
        made.workers.extend(made.make() for _ in range(workers.count))
        try:
            yield made
        finally:
            for worker in made.workers:
                ray.kill(worker)


def _package(*, alone: bool) -> Any:  # noqa: ANN401
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    if alone:  # so that Ray keeps to the loopback interface: whoever reaches it can run code here
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError:
        raise UnavailableError(
            "--executor ray needs the package ray: install it with pip install 'tasc-lm[ray]'"
        ) from None
    return ray


@contextmanager
def _cluster(ray: Any, workers: Workers) -> Iterator[None]:  # noqa: ANN401
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if workers.address is None:
        own = {"num_cpus": workers.count, "include_dashboard": False}
        ray.init(**own, **quiet, _node_ip_address="127.0.0.1")
    else:
        try:
            ray.init(address=workers.address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UnavailableError(
                f"no Ray cluster at {workers.address} ({str(error).partition(chr(10))[0]}): start "
                "one with ray start --head, or leave out --address for one of this machine"
            ) from None
    try:
        yield
    finally:
        ray.shutdown()
