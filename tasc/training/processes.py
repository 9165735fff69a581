"""Train one model in several processes, each of which reads a share of every step's examples.

The loss is a sum over targets divided by their number in the whole step, so the gradients of all
processes add up to those of one process, and their weights stay equal. Only the first one
evaluates, reports and writes. Processes are started here, by torchrun or by accelerate launch.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
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

_BUCKET = 1 << 24  # numbers sent together
_TIMEOUT = timedelta(days=1)  # for the first one's evaluation; an ended process is noticed at once
_REPORT_TIMEOUT_S = 20.0  # from losing the connection to a process to its error report
Work = Callable[[], object]


@dataclass(frozen=True)
class Group:
    """This process in the group that trains together."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process evaluates, reports and writes."""
        return self.rank == 0

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over the processes; all pass the same shapes and dtype."""
        bucket: list[Tensor] = []
        for i, tensor in enumerate(tensors if self.size > 1 else ()):
            bucket.append(tensor)
            if i == len(tensors) - 1 or sum(t.numel() for t in bucket) >= _BUCKET:
                flat = torch.cat([t.reshape(-1) for t in bucket])
                dist.all_reduce(flat)
                parts = torch.split(flat, [t.numel() for t in bucket])
                for t, summed in zip(bucket, parts, strict=True):
                    t.copy_(summed.view_as(t))
                bucket = []

    def total(self, number: float) -> float:
        if self.size == 1:
            return number
        tensor = torch.tensor(number, dtype=torch.float64, device=_device())
        dist.all_reduce(tensor)
        return tensor.item()

    def of_first(self, text: str) -> str:
        if self.size == 1:
            return text
        content = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).to(_device())
        length = torch.tensor(len(content), device=_device())
        dist.broadcast(length, 0)
        if not self.first:
            content = torch.empty(int(length), dtype=torch.uint8, device=_device())
        dist.broadcast(content, 0)
        return bytes(content.cpu().tolist()).decode()


def group() -> Group:
    """Return this process in its group, which is alone outside of ``together``."""
    return Group(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else Group()


def check_alone() -> None:
    """Raise UnavailableError if a launcher started several processes."""
    if launched()[1] > 1:
        raise UnavailableError("this training runs in one process: run it without a launcher")


@contextmanager
def together(
    count: int, device: Device, follow: Callable[..., object], *arguments: object
) -> Iterator[None]:
    """Run the body as the first of ``count`` processes; the others run ``follow(*arguments)``.

    Under a launcher, the body runs in each of its processes, and none is started here; ``count`` is
    then 1 or its number. Each process has its own CUDA device. ``follow`` is a module-level
    function. An error in it or in the body ends all processes.

    Raises a follower's TascError, or UnavailableError for a killed follower or too few devices.
    """
    rank, size = launched()
    if size > 1:
        if count not in (1, size):
            raise InputError(
                f"--processes is {count}, but the launcher started {size}: leave out --processes"
            )
        local = int(os.environ.get("LOCAL_RANK", rank))
        _join(device, local, rank=rank, world_size=size, init_method="env://")
        try:
            yield
        finally:
            dist.destroy_process_group()
    elif count > 1:
        with _started(count, device, partial(follow, *arguments)):
            yield
    else:
        yield


@contextmanager
def _started(count: int, device: Device, work: Work) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, threads // count))
    try:
        with scratch() as folder:
            where = {"init_method": (folder / "store").as_uri(), "world_size": count}
            with _followers(device, where, work) as reports:
                for rank, report in enumerate(reports, 1):
                    _raise_report(report, rank, count)  # an empty report: the follower will join
                with _follower_errors(reports):
                    _join(device, 0, rank=0, **where)
                try:
                    with _follower_errors(reports):
                        yield
                finally:
                    dist.destroy_process_group()
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _followers(device: Device, where: dict[str, Any], work: Work) -> Iterator[list[Connection]]:
    """Start the other processes of a group; yield their reports, and end them."""
    context = get_context("spawn")
    followers: list[BaseProcess] = []
    reports: list[Connection] = []
    try:
        for rank in range(1, where["world_size"]):
            report, end = context.Pipe(duplex=False)
            arguments = {
                "device": device,
                "where": where | {"rank": rank},
                "threads": torch.get_num_threads(),
                "report": end,
                "work": work,
            }
            followers.append(context.Process(target=_follow, kwargs=arguments, daemon=True))
            followers[-1].start()
            end.close()  # so that the report ends when the follower does
            reports.append(report)
        yield reports
    finally:
        for follower in followers:
            follower.terminate()
            follower.join()


@contextmanager
def _follower_errors(reports: Sequence[Connection]) -> Iterator[None]:
    """Raise a follower's error instead of the body's lost connection to it."""
    try:
        yield
    except RuntimeError:  # the only class that torch raises
        ended = connection.wait(reports, _REPORT_TIMEOUT_S)
        for rank, report in enumerate(reports, 1):
            if report in ended:
                _raise_report(report, rank, len(reports) + 1)
        raise


def _join(device: Device, local: int, **where: Any) -> None:  # noqa: ANN401
    on_cuda = device != "cpu" and torch.cuda.is_available()
    if on_cuda and local >= torch.cuda.device_count():
        devices = torch.cuda.device_count()
        raise UnavailableError(
            f"process {local + 1} has no CUDA device: lower --processes to {devices}"
        )
    if on_cuda:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if on_cuda else "gloo", timeout=_TIMEOUT, **where)
    dist.barrier()  # so that a process that fails at once does not leave before all have joined


def _follow(
    device: Device, where: dict[str, Any], threads: int, report: Connection, work: Work
) -> None:
    """Join the group, do the ``work``, and report errors to the first process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends all
    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    try:
        report.send_bytes(b"")
        _join(device, where["rank"], **where)
        work()
    except TascError as error:
        report.send_bytes(json.dumps([type(error).__name__, str(error)]).encode())
    except Exception as error:
        text = f"{type(error).__name__}: {one_line(error)}"
        report.send_bytes(json.dumps(["", text]).encode())


def _raise_report(report: Connection, rank: int, count: int) -> None:
    """Raise the error that a follower reports; an empty report is not an error."""
    try:
        content = report.recv_bytes()
    except EOFError:
        content = json.dumps(["", "it was killed"]).encode()
    if not content:
        return
    kind, text = json.loads(content)
    if kind:
        error: TascError = getattr(errors, kind)(text)
        raise error from None
    raise UnavailableError(
        f"process {rank + 1} of {count} ended: {text}: fix the cause, and continue with --resume"
    ) from None


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
