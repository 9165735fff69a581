"""Progress of long work on stderr: one bar on a terminal, a line now and then anywhere else."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from tasc.progress import Progress
from tasc.visible import visible_line

from ._console import err, note

LINE_EVERY_S = 10.0  # a log that is silent for longer looks like one that hangs


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Show what the work reports to the yielded function, until the work is done."""
    with _bar() if err.is_terminal else _lines(LINE_EVERY_S) as report:
        yield report


@contextmanager
def _bar() -> Iterator[Progress]:
    """Show one bar, of what is done just now."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=err, transient=True) as display:
        shown: dict[str, Any] = {}  # the bar by the work that it is of

        def report(description: str, done: int, total: int) -> None:
            # A description may carry figures ("train, loss 1.23"); its first words name the work.
            description = visible_line(description)
            kind = description.partition(",")[0]
            if kind not in shown:
                if shown:
                    display.remove_task(shown.popitem()[1])
                shown[kind] = display.add_task(description, total=total or None)
            display.update(
                shown[kind], description=description, completed=done, total=total or None
            )

        yield report


@contextmanager
def _lines(every_s: float) -> Iterator[Progress]:
    """Print a line every ``every_s`` seconds, also while a single unit of work takes longer."""
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
