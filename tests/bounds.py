"""A bound of the work that hostile input may cause, whatever else runs on the machine."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_CPU_SECONDS = 60.0  # a thousand times what a refusal takes


@contextmanager
def bounded_work() -> Iterator[None]:
    """Fail if the block takes a minute of this process's CPU time: it would go on for ever."""

    def endless(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise AssertionError(f"not done after {_CPU_SECONDS:.0f} seconds of CPU time")

    before = signal.signal(signal.SIGVTALRM, endless)
    signal.setitimer(signal.ITIMER_VIRTUAL, _CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
