"""Several processes that train one model: each reads a share of every step's rows.

Nothing wraps the model. The loss is a sum over targets, divided by how many the whole step has, so
adding up the gradients of all processes gives what one process finds; they take the same step then,
and their weights stay equal. The first process alone evaluates, reports and writes. Processes are
started here, or by torchrun or accelerate launch.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from tasc import errors
from tasc.data.foreign import one_line
from tasc.environment import launched
from tasc.errors import InputError, TascError, UnavailableError
from tasc.files.scratch import scratch
from tasc.options.fields import Device

_AT_ONCE = 1 << 24  # numbers that are sent together
_PATIENCE = timedelta(days=1)  # with an evaluation of the first; who has ended is known at once
_LAST_WORDS_S = 20.0  # between a lost connection and why its process ended


@dataclass(frozen=True)
class Group:
    """This process among those that train together."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether it is the one that evaluates, reports and writes."""
        return self.rank == 0

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over the processes; all give the same shapes and dtype."""
        waiting: list[Tensor] = []
        for i, tensor in enumerate(tensors if self.size > 1 else ()):
            waiting.append(tensor)
            if i == len(tensors) - 1 or sum(t.numel() for t in waiting) >= _AT_ONCE:
                _add_up(waiting)
                waiting = []

    def total(self, number: float) -> float:
        """Return the sum of what each process gives."""
        if self.size == 1:
            return number
        held = torch.tensor(number, dtype=torch.float64, device=_device())
        dist.all_reduce(held)
        return held.item()

    def of_first(self, text: str) -> str:
        """Return the ``text`` of the first process."""
        if self.size == 1:
            return text
        held = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).to(_device())
        length = torch.tensor(len(held), device=_device())
        dist.broadcast(length, 0)
        if not self.first:
            held = torch.empty(int(length), dtype=torch.uint8, device=_device())
        dist.broadcast(held, 0)
        return bytes(held.cpu().tolist()).decode()


def group() -> Group:
    """Return this process among those it trains with; alone where ``together`` joined none."""
    return Group(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else Group()


def check_alone() -> None:
    """Refuse to be one of several processes of a launcher that would all do the same."""
    if launched()[1] > 1:
        raise UnavailableError("this training runs in one process: leave out the launcher")


@contextmanager
def together(
    count: int, device: Device, follow: Callable[..., object], *arguments: object
) -> Iterator[None]:
    """Let the body run as the first of ``count`` processes, the others ``follow(*arguments)``.

    Where a launcher has started them all, the body runs in each, and nothing is started here.

    Args:
        count: 1 for this process alone, or as many as the launcher says.
        device: what each computes on; on CUDA each has a device of its own.
        follow: a function of a module. What it or the body raises ends all of them.

    Raises:
        TascError: what a follower raised.
        UnavailableError: a follower was killed, or there are too few devices.
    """
    rank, size = launched()
    if size > 1:
        if count not in (1, size):
            raise InputError(f"{count} processes, and {size} were launched: leave out --processes")
        local = int(os.environ.get("LOCAL_RANK", rank))
        _join(device, local, rank=rank, world_size=size, init_method="env://")
        try:
            yield
        finally:
            dist.destroy_process_group()
    elif count > 1:
        with _started(count, device, follow, arguments):
            yield
    else:
        yield


@contextmanager
def _started(
    count: int, device: Device, follow: Callable[..., object], arguments: tuple[object, ...]
) -> Iterator[None]:
    """Start the followers, join them, and end them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, threads // count))
    context = get_context("spawn")
    followers: list[BaseProcess] = []
    reports: list[Connection] = []
    try:
        with scratch() as folder:
            where = {"init_method": (folder / "store").as_uri(), "world_size": count}
            for rank in range(1, count):
                report, end = context.Pipe(duplex=False)
                given = (device, rank, where, torch.get_num_threads(), end, follow, arguments)
                followers.append(context.Process(target=_follow, args=given, daemon=True))
                followers[-1].start()
                end.close()  # so that the report ends when the follower does
                reports.append(report)
            for rank, report in enumerate(reports, 1):
                _heed(report, rank, count)  # it is there, and will join
            with _blamed(reports):
                _join(device, 0, rank=0, **where)
            try:
                with _blamed(reports):
                    yield
            finally:
                dist.destroy_process_group()
    finally:
        for follower in followers:
            follower.terminate()
            follower.join()
        torch.set_num_threads(threads)


@contextmanager
def _blamed(reports: Sequence[Connection]) -> Iterator[None]:
    """Raise what a follower reports, where the body loses the connection to it."""
    try:
        yield
    except RuntimeError:  # torch raises no other
        ended = connection.wait(reports, _LAST_WORDS_S)
        for rank, report in enumerate(reports, 1):
            if report in ended:
                _heed(report, rank, len(reports) + 1)
        raise


def _join(device: Device, local: int, **where: Any) -> None:  # noqa: ANN401
    """Become one of a group of processes, on this machine's device number ``local``."""
    on_cuda = device != "cpu" and torch.cuda.is_available()
    if on_cuda and local >= torch.cuda.device_count():
        known = torch.cuda.device_count()
        raise UnavailableError(
            f"process {local + 1} has no CUDA device: lower --processes to {known}"
        )
    if on_cuda:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if on_cuda else "gloo", timeout=_PATIENCE, **where)
    dist.barrier()  # or one that fails at once would be gone before all have met


def _follow(
    device: Device,
    rank: int,
    where: dict[str, Any],
    threads: int,
    report: Connection,
    follow: Callable[..., object],
    arguments: tuple[object, ...],
) -> None:
    """Be a follower: join, do the work, and tell what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process says when all end
    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    try:
        report.send_bytes(b"")
        _join(device, rank, rank=rank, **where)
        follow(*arguments)
    except TascError as error:
        report.send_bytes(json.dumps([type(error).__name__, str(error)]).encode())
    except Exception as error:
        text = f"{type(error).__name__}: {one_line(error)}"
        report.send_bytes(json.dumps(["", text]).encode())


def _heed(report: Connection, rank: int, count: int) -> None:
    """Raise what a follower reports; an empty report is none."""
    try:
        told = report.recv_bytes()
    except EOFError:
        told = json.dumps(["", "it was killed"]).encode()
    if not told:
        return
    kind, text = json.loads(told)
    if kind:
        error: TascError = getattr(errors, kind)(text)
        raise error from None
    raise UnavailableError(
        f"process {rank + 1} of {count} ended: {text}: see to it, and go on with --resume"
    ) from None


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _add_up(tensors: Sequence[Tensor]) -> None:
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    dist.all_reduce(flat)
    start = 0
    for tensor in tensors:
        tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
        start += tensor.numel()


def _device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
