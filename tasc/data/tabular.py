"""Columns of CSV, Parquet and Arrow files, some rows at a time."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
            yield {name: _values(batch.column(name)) for name in columns}


def arrow_columns(path: Path, columns: Sequence[str], size: int) -> Iterator[Columns]:
    """Yield columns of an Arrow IPC file, a stream or a Feather file; InputError as for CSV."""
    with _arrow(path) as (schema, batches):
        _check_names(path, schema.names, columns)
        for batch in batches:
            chosen = batch.select(list(columns))
            chosen.validate(full=True)  # Arrow's reader trusts offsets in the file
            for start in range(0, chosen.num_rows, size):
                part = chosen.slice(start, size)
                yield {name: _values(part.column(name)) for name in columns}


def csv_names(path: Path) -> list[str]:
    """Return the names in the header; raises the errors of ``csv_columns``."""
    return next(_csv_rows(path), [])


def parquet_names(path: Path) -> list[str]:
    """Return the names of the columns; raises the errors of ``parquet_columns``."""
    with _parquet(path) as file:
        return list(file.schema_arrow.names)


def arrow_names(path: Path) -> list[str]:
    """Return the names of the columns; raises the errors of ``arrow_columns``."""
    with _arrow(path) as (schema, _):
        return list(schema.names)


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


def _values(array: Any) -> list[Any]:  # noqa: ANN401 - an Arrow array
    """Return the values of an array; JSON within it is parsed, except whole lists and objects."""
    values: list[Any] = array.to_pylist(maps_as_pydicts="strict")
    if _is_json(array.type):
        return [_scalar(value) for value in values]
    parse = _json_parser(array.type)
    return values if parse is None else [parse(value) for value in values]


def _scalar(text: str | None) -> Any:  # noqa: ANN401 - a JSON value
    """Parse JSON, as `datasets` stores columns of several types; a list or object stays text."""
    found = None if text is None else json.loads(text)
    return text if isinstance(found, list | dict) else found


def _is_json(kind: Any) -> bool:  # noqa: ANN401 - an Arrow type
    return getattr(kind, "extension_name", "") == "arrow.json"


def _json_parser(kind: Any) -> Callable[[Any], Any] | None:  # noqa: ANN401 - an Arrow type
    """Return a function that parses the JSON within a value of an Arrow type; None without any."""
    import pyarrow as pa

    if _is_json(kind):
        return lambda text: None if text is None else json.loads(text)
    if pa.types.is_struct(kind):
        found = {field.name: _json_parser(field.type) for field in kind}
        fields = {name: parse for name, parse in found.items() if parse is not None}
        if not fields:
            return None

        def parsed(row: Any) -> Any:  # noqa: ANN401 - an object or None
            made = {name: parse(row[name]) for name, parse in fields.items()} if row else {}
            return row and row | made

        return parsed
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        parse = _json_parser(kind.value_type)
        if parse is not None:
            return lambda values: None if values is None else [parse(value) for value in values]
    return None


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
