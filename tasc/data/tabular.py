"""Columns of CSV and Parquet files, some rows at a time."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tasc.data.foreign import one_line
from tasc.data.lines import LONGEST, bytes_lines, text_lines
from tasc.data.source import AUTO, SEPARATORS
from tasc.data.table import check_columns
from tasc.errors import InputError

Columns = dict[str, list[Any]]
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_LINES, _CHARACTERS = 1000, 1 << 20  # of a file, to find its separator


def csv_columns(
    path: Path, columns: Sequence[str], size: int, separator: str = AUTO
) -> Iterator[Columns]:
    """Yield columns of a CSV file with a header, as text, ``size`` rows at a time.

    Quotes, line breaks in fields and doubled quotes are read as by Python's module csv. Empty lines
    are skipped. Fields missing at the end of a row are None. Raises InputError if a quote is not
    closed, a row is wider than the header, or a column is missing.
    """
    rows = _csv_rows(path, separator, columns)
    names = next(rows, [])
    first = next(rows, None)
    if first is None:
        return
    _check_names(path, [name for name in names if name], columns)
    where = [names.index(name) for name in columns]
    width = len(names)
    chunk = [first, *islice(rows, size - 1)]
    while chunk:
        for row in chunk:
            row += [None] * (width - len(row))
        yield {name: [row[i] for row in chunk] for name, i in zip(columns, where, strict=True)}
        chunk = list(islice(rows, size))


def parquet_columns(path: Path, columns: Sequence[str], size: int) -> Iterator[Columns]:
    """Yield columns of a Parquet file, ``size`` rows at a time; InputError as for CSV."""
    with _parquet(path) as file:
        _check_names(path, file.schema_arrow.names, columns)
        for batch in file.iter_batches(size, columns=list(columns)):
            yield {name: batch.column(name).to_pylist() for name in columns}


def csv_names(path: Path, separator: str = AUTO) -> list[str]:
    """Return the names in the header; raises the errors of ``csv_columns``."""
    return next(_csv_rows(path, separator, ()), [])


def parquet_names(path: Path) -> list[str]:
    """Return the names of the columns; raises the errors of ``parquet_columns``."""
    with _parquet(path) as file:
        return list(file.schema_arrow.names)


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    source: Any = path
    if path.suffix == ".gz":
        source = io.BytesIO(b"".join(bytes_lines(path)))
    try:
        yield pq.ParquetFile(source)
    except InputError:
        raise
    except Exception as error:  # pyarrow raises many kinds
        raise InputError(
            f"{path}: invalid PARQUET: {one_line(error)}; write the file again"
        ) from None


def _csv_rows(path: Path, given: str, wanted: Sequence[str]) -> Iterator[list[Any]]:
    """Yield the rows that are not empty; InputError if one is wider than the first."""
    csv.field_size_limit(LONGEST)  # instead of 128 KiB; text_lines limits lines
    lines = (part for line in text_lines(path) for part in io.StringIO(line, newline=""))
    sample = list(_sampled(lines))
    separator, is_tsv = SEPARATORS.get(given, given), ".tsv" in map(str.lower, path.suffixes)
    if given == AUTO:
        separator = _detected(sample, wanted, tabs_first=is_tsv)
    plain_tsv = given == AUTO and is_tsv and separator == "\t"  # many programs quote nothing there
    reader = csv.reader(chain(sample, lines), strict=True, delimiter=separator)
    width = 0
    try:
        for row in filter(None, reader):
            width = width or len(row)
            if len(row) > width:
                name = _NAMES.get(separator, repr(separator))
                raise InputError(
                    f"{path}:{reader.line_num}: {len(row)} fields in a table of {width} columns: "
                    f"quote texts with {name}, name each column, or pass --separator"
                )
            if plain_tsv and _looks_unquoted(row, width):
                raise InputError(
                    f"{path}:{reader.line_num}: a quote that began in a line before ends here, "
                    "so the lines between are one field: double the quotes inside a text, or pass "
                    "--separator tab if they are"
                )
            yield row
    except csv.Error as error:
        raise InputError(
            f"{path}:{reader.line_num}: invalid CSV: {error}; double the quotes inside a text"
        ) from None


def _sampled(lines: Iterator[str]) -> Iterator[str]:
    """Yield the first lines of a file."""
    size = 0
    for line in islice(lines, _LINES):
        yield line
        size += len(line)
        if size > _CHARACTERS:
            return


def _detected(sample: Sequence[str], wanted: Sequence[str], *, tabs_first: bool) -> str:
    """Return the separator by which the first rows are a table with the ``wanted`` columns.

    Of several, it is the one with which most rows are as wide as the header; in a .tsv file, the
    tab if it gives columns at all. Without any, it is the comma.
    """
    best, most = ",", (False, False, 0.0, 0)
    for separator in SEPARATORS.values():
        rows, whole = _parsed(sample, separator)
        width = len(rows[0]) if rows else 0
        if width < 2:
            continue
        if tabs_first and separator == "\t":
            return separator
        fitting = sum(len(row) == width for row in rows[1:]) / max(len(rows) - 1, 1)
        found = (set(wanted) <= set(rows[0]), whole, fitting, width if fitting == 1 else 0)
        if found > most:
            best, most = separator, found
    return best


def _parsed(sample: Sequence[str], separator: str) -> tuple[list[list[str]], bool]:
    """Return the rows of a sample up to the first that is no CSV, and whether there is none.

    The last row of a sample may be cut.
    """
    rows = list[list[str]]()
    reader = csv.reader(sample, strict=True, delimiter=separator)
    try:
        for row in filter(None, reader):
            rows.append(row)
    except csv.Error:
        is_cut = len(sample) >= _LINES or sum(map(len, sample)) > _CHARACTERS
        return rows, is_cut and reader.line_num >= len(sample)
    return rows, True


def _looks_unquoted(row: Sequence[str], width: int) -> bool:
    """Return whether a field consists of lines that are rows themselves, each with all tabs."""
    return any(
        field.count("\n") > 1 and all(line.count("\t") == width - 1 for line in inner[1:-1])
        for field in row
        if "\t" in field and (inner := field.split("\n"))
    )


def _check_names(path: Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    name, times = max(Counter(names).items(), key=lambda entry: entry[1], default=("", 0))
    if times > 1:
        raise InputError(f"{path}:1: the column {name!r} is repeated; rename one")
    check_columns(str(path), names, wanted)
