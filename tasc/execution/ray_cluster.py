"""Work on a running Ray cluster, or a temporary local one."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tasc.errors import UnavailableError
from tasc.execution import Executor, Result, Task, Workers
from tasc.execution.worker import Outcome, Piece, Queue, outcome, prepare


class _Worker:
    """A worker process, which becomes a Ray actor."""

    def __init__(self, shared: object) -> None:
        prepare()
        self.shared = shared

    def run(self, work: Callable[[Any, Any], Any], task: object) -> Outcome:
        return outcome(work, self.shared, task)


@dataclass(frozen=True)
class Ray:
    """Runs pieces in Ray actors, and replaces those that die."""

    ray: Any  # the package
    start_worker: Callable[[], Any]
    workers: list[Any]  # handles

    def run(
        self, work: Callable[[Any, Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[int, Result]]:
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
                self.workers[self.workers.index(worker)] = replacement = self.start_worker()
                free.append(replacement)
                queue.lose(piece)
                continue
            free.append(worker)
            if error is not None:
                raise error
            yield piece.number, result


@contextmanager
def start(shared: object, workers: Workers) -> Iterator[Executor]:
    """Connect to a cluster or start a local one, and run workers there.

    Raises UnavailableError if Ray is not installed, or there is no cluster at the address.
    """
    ray = _package(alone=workers.address is None)
    with _cluster(ray, workers):
        places = ray.cluster_resources()
        devices = int(workers.devices and bool(places.get("GPU")))
        kind = ray.remote(num_cpus=1, num_gpus=devices, max_restarts=0)(_Worker)
        # One without a place would wait for it, and its piece with it.
        most = max(1, int(places.get("GPU" if devices else "CPU", 0)))
        reference = ray.put(shared)
        executor = Ray(ray, lambda: kind.remote(reference), [])
        executor.workers.extend(executor.start_worker() for _ in range(min(workers.count, most)))
        try:
            yield executor
        finally:
            for worker in executor.workers:
                ray.kill(worker)


def _package(*, alone: bool) -> Any:  # noqa: ANN401
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    if alone:  # so that Ray stays on the loopback interface: anyone who reaches it can run code
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError:
        raise UnavailableError(
            "--executor ray needs the package ray: run pip install 'tasc-lm[ray]'"
        ) from None
    return ray


@contextmanager
def _cluster(ray: Any, workers: Workers) -> Iterator[None]:  # noqa: ANN401
    address = workers.address or "local"  # one of our own, even beside a running one
    resources = (
        {} if workers.address else {"num_cpus": workers.count, "_node_ip_address": "127.0.0.1"}
    )
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
    try:
        ray.init(address, **quiet, **resources)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise UnavailableError(
            f"no Ray cluster at {address} ({str(error).partition(chr(10))[0]}): "
            "start one with ray start --head, and set RAY_AUTH_MODE=token if it asks for a token"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()
