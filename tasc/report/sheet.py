"""Tables for a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would compute


def as_csv(columns: Sequence[str], lines: Iterable[Iterable[object]]) -> str:
    """Return a header and a line each.

    A text that looks like a formula has an apostrophe before it. Figures are numbers.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(value) for value in line] for line in lines)
    return file.getvalue()


def _plain(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
