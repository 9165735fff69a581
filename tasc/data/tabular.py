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
from tasc.data.table import check_columns
from tasc.errors import InputError

Columns = dict[str, list[Any]]
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def csv_columns(path: Path, columns: Sequence[str], size: int) -> Iterator[Columns]:
    """Yield columns of a CSV file with a header, as text, ``size`` rows at a time.

    The separator is the comma, semicolon or tab that is most frequent in the header. Empty lines
    are skipped. Fields missing at the end of a row are None. Raises InputError if a quote is not
    closed, a row is wider than the header, or a column is missing.
    """
    rows = _csv_rows(path)
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


def csv_names(path: Path) -> list[str]:
    """Return the names in the header; raises the errors of ``csv_columns``."""
    return next(_csv_rows(path), [])


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


def _csv_rows(path: Path) -> Iterator[list[Any]]:
    """Yield the rows that are not empty; InputError if one is wider than the first."""
    csv.field_size_limit(LONGEST)  # instead of 128 KiB; text_lines limits lines
    lines = (part for line in text_lines(path) for part in io.StringIO(line, newline=""))
    first = next(lines, "")
    # Spreadsheets of countries with a decimal comma write semicolons.
    tabs = ".tsv" in path.suffixes and "\t" in first
    separator = "\t" if tabs else max(_SEPARATORS, key=first.count)
    reader = csv.reader(chain([first], lines), strict=True, delimiter=separator)
    width = 0
    try:
        for row in filter(None, reader):
            width = width or len(row)
            if len(row) > width:
                raise InputError(
                    f"{path}:{reader.line_num}: {len(row)} fields in a table of {width} columns: "
                    f"quote texts with {_SEPARATORS[separator]}, or name each column"
                )
            if separator == "\t" and any("\t" in field and "\n" in field for field in row):
                raise InputError(
                    f"{path}:{reader.line_num}: a quote that began in a line before ends here, "
                    "so the lines between are one field: double the quotes inside a text"
                )
            yield row
    except csv.Error as error:
        raise InputError(
            f"{path}:{reader.line_num}: invalid CSV: {error}; double the quotes inside a text"
        ) from None


def _check_names(path: Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    name, times = max(Counter(names).items(), key=lambda entry: entry[1], default=("", 0))
    if times > 1:
        raise InputError(f"{path}:1: the column {name!r} is repeated; rename one")
    check_columns(str(path), names, wanted)
