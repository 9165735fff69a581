"""Runs of the command line as processes of their own, forked from one that has imported all.

Importing torch takes seconds, a fork milliseconds: thousands of runs an hour are possible. A run
has a home, a temporary folder and a working directory below its sandbox, and may write there alone.
"""

import atexit
import ctypes
import importlib
import mmap
import os
import pkgutil
import resource
import select
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

LIMIT_S = 60.0
_MEMORY = 6 << 30  # bytes of address space in addition to the imports
_SHARED = struct.Struct("<qq")  # calls and bytes
_STRAY = 4096


@dataclass(frozen=True)
class Faults:
    """The faults of a run; none by default."""

    kill_at_call: int = 0  # the n-th call that changes files ends the process
    kill_after_s: float | None = None
    signal: int = signal.SIGKILL  # that ends it then
    room: int = -1  # bytes that can be written before ``error``
    error: int = 0


NONE = Faults()


@dataclass(frozen=True)
class Ended:
    """How a run ended. ``code`` is None for one that was killed, by a signal or by the clock."""

    code: int | None
    signal: int
    hung: bool
    out: str
    err: str
    seconds: float
    calls: int  # that changed files, and bytes written, below the sandbox
    bytes: int
    stray: str  # a path outside of the sandbox that was opened to be changed
    grown: int = 0  # bytes of memory at the peak, beside what this process has


@dataclass(frozen=True)
class Started:
    pid: int
    began: float
    shared: mmap.mmap
    out: IO[bytes]
    err: IO[bytes]
    faults: Faults


def preload() -> None:
    """Import all that a command may import, so that a fork has it."""
    import torch

    torch.set_num_threads(1)
    for package in ("tasc", "tasc_cli"):
        found = importlib.import_module(package)
        for module in pkgutil.walk_packages(found.__path__, package + "."):
            if "libtasc_cuda" not in module.name:  # a library in C, no module
                importlib.import_module(module.name)
    for name in ("bitsandbytes", "datasets", "peft", "pyarrow.parquet"):
        importlib.import_module(name)


def prepare(sandbox: Path) -> None:
    """Make the folders of a sandbox: inputs in ``in``, outputs in ``made``."""
    for name in ("in", "made", "cwd", "home", "tmp"):
        (sandbox / name).mkdir(parents=True)


def run(arguments: Sequence[str], sandbox: Path, faults: Faults = NONE) -> Ended:
    return wait(start(arguments, sandbox, faults))


def start(arguments: Sequence[str], sandbox: Path, faults: Faults = NONE) -> Started:
    return fork(partial(_main, arguments), sandbox, faults)


def fork(body: Callable[[], int], sandbox: Path, faults: Faults = NONE) -> Started:
    """Let a process of its own call ``body``, which returns an exit code, in a prepared sandbox."""
    shared = mmap.mmap(-1, _SHARED.size + _STRAY)
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - wait ends them
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        _child(body, sandbox, faults, shared)
    return Started(pid, time.monotonic(), shared, out, err, faults)


def wait(started: Started, limit_s: float = LIMIT_S) -> Ended:
    """Wait for a run to end; kill it, and all that it started, at its limit."""
    handle = os.pidfd_open(started.pid)
    after, stopped = started.faults.kill_after_s, False
    ready, _, _ = select.select([handle], [], [], limit_s if after is None else after)
    if not ready and started.faults.signal != signal.SIGKILL:
        os.kill(started.pid, started.faults.signal)
        stopped, (ready, _, _) = True, select.select([handle], [], [], limit_s)
    os.close(handle)
    if not ready:
        os.kill(started.pid, signal.SIGKILL)
    _, status, used = os.wait4(started.pid, 0)
    seconds = time.monotonic() - started.began
    _end_group(started.pid)
    killed = os.WIFSIGNALED(status)
    calls, written = _SHARED.unpack(started.shared[: _SHARED.size])
    return Ended(
        code=None if killed else os.WEXITSTATUS(status),
        signal=os.WTERMSIG(status) if killed else 0,
        hung=not ready and (stopped or after is None),
        out=_text(started.out),
        err=_text(started.err),
        seconds=seconds,
        calls=calls,
        bytes=written,
        stray=started.shared[_SHARED.size :].rstrip(b"\0").decode(errors="replace"),
        grown=(used.ru_maxrss << 10) - _pages(1),
    )


def _end_group(leader: int) -> None:
    """Kill what a run started and did not end, and wait: it may hold the run's locks till then."""
    with suppress(ProcessLookupError):
        for _ in range(10):  # what is ended and not yet looked after by anybody still counts
            os.killpg(leader, signal.SIGKILL)
            time.sleep(0.01)


def _text(file: IO[bytes]) -> str:
    with file:
        file.seek(0)
        return file.read().decode(errors="replace")


def _child(body: Callable[[], int], sandbox: Path, faults: Faults, shared: mmap.mmap) -> None:
    """Be the run: this does not return."""
    code = 1
    try:
        os.setsid()
        # Torch creates its threads, which a fork does not inherit, at their first use. A second
        # thread that uses them in the meantime fails, and several threads read weights.
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)
        _enter(sandbox)
        library = ctypes.CDLL(None)
        if hasattr(library, "faults_arm"):
            library.faults_calls.restype = library.faults_bytes.restype = ctypes.c_int64
            library.faults_astray.restype = ctypes.c_char_p
            library.faults_arm(
                os.fsencode(sandbox),
                ctypes.c_int64(faults.kill_at_call),
                ctypes.c_int64(faults.room),
                faults.error,
            )
        code = body()
        atexit._run_exitfuncs()
        if hasattr(library, "faults_arm"):
            counts = _SHARED.pack(library.faults_calls(), library.faults_bytes())
            stray: bytes = library.faults_astray()
            shared[: _SHARED.size + len(stray)] = counts + stray
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _enter(sandbox: Path) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(sandbox / "cwd")
    os.environ.update(
        HOME=str(sandbox / "home"),
        XDG_CACHE_HOME=str(sandbox / "home" / "cache"),
        HF_HOME=str(sandbox / "home" / "hf"),
        TMPDIR=str(sandbox / "tmp"),
        HF_HUB_OFFLINE="1",
    )
    tempfile.tempdir = str(sandbox / "tmp")  # unsaid, Python would try the folder with a file
    used = _pages(0)
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _pages(column: int) -> int:
    """Return bytes of this process: 0 is its address space, 1 its resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[column]) * mmap.PAGESIZE


def _main(arguments: Sequence[str]) -> int:
    from tasc_cli.main import main

    sys.argv = ["tasc", *arguments]
    try:
        main(list(arguments))
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        sys.stderr.write(f"{stop.code}\n")
        return 1
    return 0
