"""Pieces of work for the tests of executors: workers import this and little else."""

import os
import signal
from pathlib import Path


def add(shared: int, task: int) -> int:
    if task < 0:
        raise ValueError(f"no room for {task}")
    return shared + task


def die_once(folder: Path, task: int) -> int:
    """Return the task's double; the worker that has 3 in work dies of it, but for the last time."""
    deaths = sorted(folder.glob("death-*"))
    if task == 3 and len(deaths) < int((folder / "deaths").read_text()):
        (folder / f"death-{len(deaths)}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"done-{task}-{os.getpid()}").touch()
    return 2 * task


def write_down(calls: list[int], task: int) -> dict[str, bytes]:
    calls.append(task)
    if task < 0:
        raise ValueError("no more")
    return {"value": b"%d" % task}
