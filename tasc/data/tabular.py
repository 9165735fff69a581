"""Columns of CSV, Parquet and Arrow files, some rows at a time."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from tasc.data import class_labels
from tasc.data.foreign import one_line
from tasc.data.lines import LONGEST, bytes_lines, text_lines
from tasc.data.source import AUTO, SEPARATORS
from tasc.data.table import check_columns
from tasc.errors import InputError

Columns = dict[str, list[Any]]
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_STATED = re.compile(r'"?sep=([^\w\s"]|\t)"?[\r\n]*', re.IGNORECASE)
_LINES, _CHARACTERS = 1000, 1 << 20  # of a file, to find its separator


@dataclass(frozen=True)
class ColumnFormat:
    """How files of columns are read; ``separator`` is the source's, for formats that have one."""

    # (path, separator) -> the names of the columns
    names: Callable[[Path, str], list[str]]
    # (path, separator, columns, size) -> those columns, ``size`` rows at a time
    columns: Callable[[Path, str, Sequence[str], int], Iterator[Columns]]


def csv_columns(path: Path, separator: str, columns: Sequence[str], size: int) -> Iterator[Columns]:
    """Yield columns of a CSV file with a header, as text, ``size`` rows at a time.

    Quotes, line breaks in fields and doubled quotes are read as by Python's module csv. Empty lines
    are skipped, and so is a first line such as "sep=;", which states the separator. Fields missing
    at the end of a row are None. Raises InputError if a quote is not closed, a row is wider than
    the header, or a column is missing.
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


def parquet_columns(
    path: Path, _separator: str, columns: Sequence[str], size: int
) -> Iterator[Columns]:
    """Yield columns of a Parquet file, ``size`` rows at a time; InputError as for CSV."""
    with _parquet(path) as file:
        schema = file.schema_arrow
        _check_names(path, schema.names, columns)
        convert = class_labels.of_metadata(schema.metadata, str(path))
        for batch in file.iter_batches(size, columns=list(columns)):
            yield {name: _values(batch.column(name), convert.get(name)) for name in columns}


def arrow_columns(
    path: Path, _separator: str, columns: Sequence[str], size: int
) -> Iterator[Columns]:
    """Yield columns of an Arrow IPC file, a stream or a Feather file; InputError as for CSV."""
    with _arrow(path) as (schema, batches):
        _check_names(path, schema.names, columns)
        convert = class_labels.of_metadata(schema.metadata, str(path))
        for batch in batches:
            chosen = batch.select(list(columns))
            chosen.validate(full=True)  # Arrow's reader trusts offsets in the file
            for start in range(0, chosen.num_rows, size):
                part = chosen.slice(start, size)
                yield {name: _values(part.column(name), convert.get(name)) for name in columns}


def csv_names(path: Path, separator: str) -> list[str]:
    """Return the names in the header; raises the errors of ``csv_columns``."""
    return next(_csv_rows(path, separator, ()), [])


def parquet_names(path: Path, _separator: str) -> list[str]:
    """Return the names of the columns; raises the errors of ``parquet_columns``."""
    with _parquet(path) as file:
        return list(file.schema_arrow.names)


def arrow_names(path: Path, _separator: str) -> list[str]:
    """Return the names of the columns; raises the errors of ``arrow_columns``."""
    with _arrow(path) as (schema, _):
        return list(schema.names)


COLUMN_FORMATS = {
    "csv": ColumnFormat(csv_names, csv_columns),
    "parquet": ColumnFormat(parquet_names, parquet_columns),
    "arrow": ColumnFormat(arrow_names, arrow_columns),
}


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with _as_input_error(path, "PARQUET"):
        yield pq.ParquetFile(_opened(path))


@contextmanager
def _arrow(path: Path) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Yield the schema and the record batches of a file in one of Arrow's two IPC formats."""
    import pyarrow as pa
    from pyarrow import ipc

    with _as_input_error(path, "ARROW"):
        source = _opened(path)
        source = source if isinstance(source, io.BytesIO) else pa.memory_map(str(source))
        try:
            file = ipc.open_file(source)
            batches = (file.get_batch(i) for i in range(file.num_record_batches))
        except pa.ArrowInvalid:  # no file, so a stream, as `datasets` writes
            source.seek(0)
            file = ipc.open_stream(source)
            batches = iter(file)
        yield file.schema, batches


def _opened(path: Path) -> Any:  # noqa: ANN401 - what pyarrow reads
    return io.BytesIO(b"".join(bytes_lines(path))) if path.suffix == ".gz" else path


@contextmanager
def _as_input_error(path: Path, form: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # pyarrow raises many kinds
        raise InputError(
            f"{path}: invalid {form}: {one_line(error)}; write the file again"
        ) from None


def _values(
    array: Any,  # noqa: ANN401 - an Arrow array
    names: class_labels.Convert | None,
) -> list[Any]:
    """Return the values of an array; JSON within it is parsed, except whole lists and objects.

    ``names`` puts names in the place of class labels, if there are any.
    """
    values: list[Any] = array.to_pylist(maps_as_pydicts="strict")
    convert = _scalar if _is_json(array.type) else _conversion(array.type)
    values = values if convert is None else list(map(convert, values))
    return values if names is None else list(map(names, values))


def _scalar(text: str | None) -> Any:  # noqa: ANN401 - a JSON value
    """Parse JSON, as `datasets` stores columns of several types; a list or object stays text."""
    value = None if text is None else json.loads(text)
    return text if isinstance(value, list | dict) else value


def _is_json(kind: Any) -> bool:  # noqa: ANN401 - an Arrow type
    return getattr(kind, "extension_name", "") == "arrow.json"


def _conversion(kind: Any) -> Callable[[Any], Any] | None:  # noqa: ANN401 - an Arrow type
    """Return a function that parses JSON and shortens floats within a value of an Arrow type.

    None if there is nothing to convert.
    """
    import pyarrow as pa

    if _is_json(kind):
        return lambda text: None if text is None else json.loads(text)
    if pa.types.is_float32(kind) or pa.types.is_float16(kind):
        short = np.float32 if pa.types.is_float32(kind) else np.float16
        return lambda value: None if value is None else float(str(short(value)))
    if pa.types.is_struct(kind):
        fields = {
            field.name: convert
            for field in kind
            if (convert := _conversion(field.type)) is not None
        }
        if not fields:
            return None

        def converted(row: Any) -> Any:  # noqa: ANN401 - an object or None
            return row and row | {name: convert(row[name]) for name, convert in fields.items()}

        return converted
    if pa.types.is_map(kind):
        of_item = _conversion(kind.item_type)
        if of_item is not None:
            return lambda row: row and {key: of_item(value) for key, value in row.items()}
    is_list = (
        *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
        *(pa.types.is_list_view, pa.types.is_large_list_view),
    )
    if any(fits(kind) for fits in is_list):
        convert = _conversion(kind.value_type)
        if convert is not None:
            return lambda values: None if values is None else [convert(value) for value in values]
    return None


def _csv_rows(path: Path, setting: str, wanted: Sequence[str]) -> Iterator[list[Any]]:
    """Yield the rows that are not empty; InputError if one is wider than the first."""
    csv.field_size_limit(LONGEST)  # instead of 128 KiB; text_lines limits lines
    lines = (part for line in text_lines(path) for part in io.StringIO(line, newline=""))
    sample = list(_sampled(lines))
    detects, is_tsv = setting == AUTO, ".tsv" in map(str.lower, path.suffixes)
    separator, stated = SEPARATORS.get(setting, setting), _stated(sample)
    if detects:
        separator = stated or _detected(sample, wanted, tabs_first=is_tsv)
    plain_tsv = detects and is_tsv and separator == "\t"  # many programs quote nothing there
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


def _stated(sample: list[str]) -> str | None:
    """Return the separator of a first line such as "sep=;", for Excel, and empty that line."""
    match = _STATED.fullmatch(sample[0]) if sample else None
    if match is None:
        return None
    sample[0] = "\n"
    return match[1]


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
    best, best_score = ",", (False, False, 0.0, 0)
    for separator in SEPARATORS.values():
        rows, whole = _parsed(sample, separator)
        width = len(rows[0]) if rows else 0
        if width < 2:
            continue
        if tabs_first and separator == "\t":
            return separator
        fitting = sum(len(row) == width for row in rows[1:]) / max(len(rows) - 1, 1)
        score = (set(wanted) <= set(rows[0]), whole, fitting, width if fitting == 1 else 0)
        if score > best_score:
            best, best_score = separator, score
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
