"""Calling a stranger's code, such as a template, in a process that can be ended."""

import gc
import json
import os
import resource
import signal
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tasc.data.foreign import one_line

_LEAST, _EACH = 30.0, 0.1  # seconds of all calls that are always allowed, and of each in the mean


class Forked:
    """A function of JSON values to a text, called in one forked process.

    Nothing but its end stops a process within a single operation of C, such as a comparison of
    lists that double. The process is forked, because it has to have the function's objects; it
    shares no locks, as it neither prints nor uses other threads' objects.
    """

    def __init__(self, work: Callable[[Any], str], seconds: float, memory: int) -> None:
        """Allow ``seconds`` per call, and ``memory`` bytes more than this process has."""
        self._work, self._seconds, self._memory = work, seconds, memory
        self._spent, self._calls = 0.0, 0
        self.pid = 0  # of the process, from the first call on
        self._pipe: Connection | None = None
        self._end: Callable[[], object] = lambda: None

    def __call__(self, argument: object) -> str:
        """Return the function's text.

        Raises:
            RuntimeError: with the function's own error, in one line.
            TimeoutError: the call, or all of them, took too long.
            MemoryError: the process was killed, which a machine does that runs out of memory.
        """
        pipe = self._pipe or self._start()
        begin = time.monotonic()
        try:
            pipe.send_bytes(json.dumps(argument, default=str).encode())
            if not pipe.poll(self._seconds):
                raise TimeoutError(f"more than {self._seconds:.0f} s for one chat")
            reply = json.loads(pipe.recv_bytes())
        except (OSError, EOFError) as error:
            self._pipe = None
            self._end()
            if isinstance(error, TimeoutError):
                raise
            raise MemoryError("its process was killed") from None
        self._calls += 1
        self._spent += time.monotonic() - begin
        if self._spent > max(_LEAST, _EACH * self._calls):
            raise TimeoutError(f"{self._spent:.0f} s for {self._calls:,} chats")
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return str(reply["text"])

    def _start(self) -> Connection:
        ours, theirs = Pipe()
        self.pid = os.fork()
        if not self.pid:
            ours.close()
            _serve(theirs, self._work, self._memory)
        theirs.close()
        self._pipe, self._end = ours, weakref.finalize(self, _end, self.pid, ours)
        return ours


def _end(pid: int, pipe: Connection) -> None:
    pipe.close()
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _serve(pipe: Connection, work: Callable[[Any], str], memory: int) -> None:
    """Answer until the pipe is closed; never returns."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        gc.freeze()  # the parent's garbage is the parent's to end, such as other such processes
        _limit_memory(memory)
        _close_all_but(pipe.fileno())
        while True:
            argument = json.loads(pipe.recv_bytes())
            try:
                answer = {"text": work(argument)}
            except Exception as error:
                answer = {"error": one_line(error)}
            pipe.send_bytes(json.dumps(answer).encode())
    finally:
        os._exit(0)


def _close_all_but(handle: int) -> None:
    """Close what the parent had open, or its locks would last as long as this process."""
    os.closerange(3, handle)
    os.closerange(handle + 1, os.sysconf("SC_OPEN_MAX"))


def _limit_memory(more: int) -> None:
    """Limit this process to ``more`` bytes than it has now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):  # no Linux
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        most = int(pages) * resource.getpagesize() + more
        if soft == resource.RLIM_INFINITY or most < soft:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
