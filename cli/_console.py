"""What a person sees: bars and tables on stderr and stdout; with --json only JSON on stdout."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from tasc.progress import Progress

# Texts are shown as they are: a path or a label may hold [brackets], which are no markup.
_plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
out = Console(**_plain)
if not out.is_terminal:
    out = Console(**_plain, width=100)  # in a file or a pipe nothing limits the width
err = Console(stderr=True, **_plain)


def print_json(value: object) -> None:
    """Write a result for programs: JSON and nothing else on stdout."""
    out.file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def bars() -> Iterator[Progress]:
    """Show one bar a kind of work on stderr; silent where stderr is not a terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=err, transient=True, disable=not err.is_terminal) as display:
        tasks: dict[str, Any] = {}

        def report(description: str, done: int, total: int) -> None:
            # A description may carry figures ("train, loss 1.23"); its first words name the bar.
            kind = description.partition(",")[0]
            if kind not in tasks:
                tasks[kind] = display.add_task(description, total=total or None)
            display.update(
                tasks[kind], description=description, completed=done, total=total or None
            )

        yield report


def table(title: str, columns: list[str], rows: list[list[str]], *, text_columns: int = 1) -> None:
    """Print a table whose first ``text_columns`` are text and whose others are figures.

    Where it is too narrow, columns move together and text is cut; figures stay in one piece.
    """
    view = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for i, name in enumerate(columns):
        figures = i >= text_columns
        whole = figures and not any(" " in text for text in (name, *(row[i] for row in rows)))
        view.add_column(
            name, justify="right" if figures else "left", overflow="fold", no_wrap=whole
        )
    for row in rows:
        view.add_row(*row)
    if Measurement.get(out, out.options, view).maximum >= out.width:
        view.padding = (0, 0, 0, 0)
    out.print(view)
    out.print()
