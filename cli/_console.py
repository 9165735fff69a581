"""Terminal output: commands write to stdout and stderr only through these functions.

Names and texts may come from strangers, so control characters are escaped (``tasc.visible``). With
--json, stdout contains only JSON.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from tasc.visible import STEERING, visible, visible_line

if TYPE_CHECKING:
    from tasc.benchmark.results.prediction import StepFigures

Item = TypeVar("Item")
# Text is printed literally: [brackets] in a path or a label are not markup.
_plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
_table: dict[str, Any] = {
    "title_justify": "left",
    "title_style": "bold",
    "box": box.SIMPLE_HEAD,
    "show_edge": False,
    "padding": (0, 1, 0, 0),
}
out = Console(**_plain)
if not out.is_terminal:
    out = Console(**_plain, width=100)  # a file or a pipe has no width
err = Console(stderr=True, **_plain)


def print_json(value: object) -> None:
    """Write a result to stdout as JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    text = STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)  # occurs only in strings
    out.file.write(text + "\n")


def say(text: str) -> None:
    """Write a line of a result to stdout."""
    typer.echo(visible(text))


def say_first(text: str) -> None:
    """Write a line of a result that comes before its figures to stdout, in red on a terminal."""
    typer.secho(visible_line(text), fg="red")


def note(text: str) -> None:
    """Write one line about the run to stderr."""
    typer.echo(visible_line(text), err=True)


def warn(text: str) -> None:
    """Write one line about a problem to stderr, in red on a terminal."""
    typer.secho(visible_line(text), fg="red", err=True)


class LogLines(logging.Handler):
    """Writes the library's log as lines about a problem."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


def interval_text(interval: tuple[float, float] | None, form: str) -> str:
    """Return "LOW to HIGH"; "" without an interval."""
    return "" if interval is None else f"{interval[0]:{form}} to {interval[1]:{form}}"


def noted(figure: str, *notes: str) -> str:
    """Return a figure, followed by its non-empty notes in brackets."""
    inside = "; ".join(filter(None, notes))
    return f"{figure} ({inside})" if inside else figure


def bounds_text(interval: tuple[float, float] | None, form: str) -> str:
    """Return "95 % LOW to HIGH"; "" without an interval."""
    return f"95 % {interval_text(interval, form)}" if interval else ""


def ms_text(ms: float) -> str:
    """Return milliseconds, with two decimals below 100."""
    return f"{ms:,.{2 if ms < 100 else 0}f}"


def speedup_text(figures: "StepFigures") -> str:
    """Return a predicted speed-up with its interval; a dash if there is none."""
    if figures.speedup is None:
        return "-"
    return noted(f"{figures.speedup:.2f}×", interval_text(figures.speedup_interval, ".2f"))


def warn_of_rough(figures: "Iterable[StepFigures]") -> None:
    """Warn if predictions were made on a loaded machine."""
    if any(one.rough for one in figures):
        note(
            "predicted speed-ups are rough: the durations of forwards varied because the machine "
            "was loaded; run again on an idle machine"
        )


def table_of(
    title: str,
    items: Iterable[Item],
    columns: Mapping[str, Callable[[Item], str]],
    *,
    text_columns: int = 1,
) -> None:
    """Print a table with a row per item; ``columns`` has the text of an item by column name."""
    rows = [[text(item) for text in columns.values()] for item in items]
    table(title, list(columns), rows, text_columns=text_columns)


def table(
    title: str,
    columns: list[str],
    rows: list[list[str]],
    *,
    text_columns: int = 1,
    optional: Sequence[str] = (),
) -> None:
    """Print a table whose first ``text_columns`` are text and whose other columns are figures.

    On a narrow terminal, ``optional`` columns are left out, the first one first, until no word must
    be broken. Then columns move closer and text is wrapped; figures are never broken.
    """
    view = Table(title=visible(title), **_table)
    rows = [[visible(cell) for cell in row] for row in rows]
    columns, rows = _fitted([*map(visible, columns)], rows, optional)
    widths = _widths([*zip(columns, *rows, strict=True)])
    for i, name in enumerate(columns):
        figures = i >= text_columns
        whole = figures and not any(" " in text for text in (name, *(row[i] for row in rows)))
        justify: Literal["left", "right"] = "right" if figures else "left"
        width = widths[i] if widths else None
        view.add_column(name, justify=justify, overflow="fold", no_wrap=whole, width=width)
    for row in rows:
        view.add_row(*row)
    if widths or Measurement.get(out, out.options, view).maximum >= out.width:
        view.padding = (0, 0, 0, 0)
    out.print(view)
    out.print()


def _fitted(
    columns: list[str], rows: list[list[str]], optional: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Leave out optional columns until the longest words of all columns fit side by side."""
    for name in optional:
        if _fits([*map(_longest_word, zip(columns, *rows, strict=True))]):
            break
        at = columns.index(name)
        columns, *rows = [line[:at] + line[at + 1 :] for line in (columns, *rows)]
    return columns, rows


def _widths(texts: Sequence[tuple[str, ...]]) -> list[int] | None:
    """Return the width of each column where lines must be broken but no word; else None.

    Each column is as wide as its longest word; the first ones get the space that is left.
    """
    least = [*map(_longest_word, texts)]
    whole = [max(map(cell_len, column)) for column in texts]
    if _fits([width + 1 for width in whole]) or not _fits(least):
        return None
    left = out.width + 1 - sum(width + 1 for width in least)
    for i, width in enumerate(whole):
        extra = min(width - least[i], left)
        least[i], left = least[i] + extra, left - extra
    return least


def _fits(widths: list[int]) -> bool:
    return sum(widths) + len(widths) - 1 <= out.width  # a space between two columns


def _longest_word(texts: Iterable[str]) -> int:
    return max(cell_len(word) for text in texts for word in text.split() or [""])
