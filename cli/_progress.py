"""Progress on stderr: a bar on a terminal, otherwise a line every ten seconds."""

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from tasc.progress import Progress
from tasc.visible import visible_line

from ._console import err, note

LINE_EVERY_S = 10.0  # a run that logs nothing for longer seems to hang


def show_progress() -> AbstractContextManager[Progress]:
    """Show the progress that is reported to the yielded function."""
    return _bar() if err.is_terminal else _lines(LINE_EVERY_S)


@contextmanager
def _bar() -> Iterator[Progress]:
    what = TextColumn("{task.description}", markup=False)
    columns = what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Bars(*columns, console=err, transient=True) as display:
        shown: dict[str, Any] = {}  # the bar by its work

        def report(description: str, done: int, total: int) -> None:
            # In a description such as "train, loss 1.23", the work comes before the comma.
            text, size = visible_line(description), total or None
            kind = text.partition(",")[0]
            if kind not in shown:
                if shown:
                    display.remove_task(shown.popitem()[1])
                shown[kind] = display.add_task(text, total=size)
            display.update(shown[kind], description=text, completed=done, total=size)

        yield report


@contextmanager
def _lines(every_s: float) -> Iterator[Progress]:
    """Print a line every ``every_s`` seconds, even during a longer unit of work."""
    begin, ended = time.monotonic(), threading.Event()
    latest = ("working", 0, 0)

    def report(description: str, done: int, total: int) -> None:
        nonlocal latest
        latest = (description, done, total)

    def print_lines() -> None:
        while not ended.wait(every_s):
            note(_line(latest, time.monotonic() - begin))

    printer = threading.Thread(target=print_lines, daemon=True)
    printer.start()
    try:
        yield report
    finally:
        ended.set()
        printer.join()


def _line(latest: tuple[str, int, int], seconds: float) -> str:
    description, done, total = latest
    counted = f": {done:,} of {total:,}" if total else f": {done:,}" if done else ""
    return f"{description}{counted}, {seconds:.0f} s"
