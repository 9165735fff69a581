"""Local data: one file, or a folder with a file per split.

`datasets` is not used here: it reports a bad line without its number, fails on unused columns of
mixed type, and takes a minute for a table of many columns.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from tasc.data.lines import line_name, offset_lines, text_lines
from tasc.data.saved import saved_splits
from tasc.data.source import Source
from tasc.data.table import VALIDATION_NAMES, Table, check_columns, choose_split
from tasc.data.tabular import COLUMN_FORMATS
from tasc.errors import InputError

_BATCH = 4096  # rows read at a time
_FORMATS = {".jsonl": "lines", ".ndjson": "lines", ".json": "json", ".csv": "csv"}
_FORMATS |= {".tsv": "csv", ".parquet": "parquet"}
_FORMATS |= dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow")
_SPLIT_FILE = re.compile(
    r"(train|validation|valid|val|dev|test)(-\d+-of-\d+)?"
    r"(\.(?:jsonl|ndjson|json|csv|tsv|parquet|arrow|feather|ipc))(\.gz)?"
)
_OF = re.compile(r"-of-(\d+)")

Entry = tuple[dict[str, Any], int]  # a row, and the byte offset of its line or its number
Batch = tuple[dict[str, list[Any]], list[int]]  # columns, and the offset or number of each row


@dataclass(frozen=True)
class Span:
    """A file of a split, or its lines that begin in the bytes ``begin`` to ``end``, exclusive."""

    path: Path
    begin: int = 0
    end: int | None = None


def has_local_form(path: str) -> bool:
    """Whether ``path`` can only be meant as a file or folder, present or not."""
    return path.startswith(("/", ".", "~")) or path.count("/") > 1 or bool(_format(Path(path)))


def is_local(path: str) -> bool:
    """Return whether ``path`` is, or can only mean, a file or folder."""
    return has_local_form(path) or Path(path).exists()


def find_splits(path: str) -> dict[str, list[Path]]:
    """Return the files of each split, in the order train, validation, test.

    A folder has a file per split, or is one of `datasets`' ``save_to_disk``. Raises InputError if
    the path does not exist, or the folder has no file named after a split.
    """
    path_ = Path(path).expanduser()
    if path_.is_file():
        return {"train": [path_]}
    if not path_.is_dir():
        raise InputError(f"{path}: no such file or folder: pass one, a Hub id, or builtin:NAME")
    if saved := saved_splits(path_):
        return saved
    names = sorted(entry.name + "/" * entry.is_dir() for entry in path_.iterdir())
    files_of: dict[str, list[Path]] = {"train": [], "validation": [], "test": []}
    for name in names:
        if (match := _SPLIT_FILE.fullmatch(name)) and (path_ / name).is_file():
            split = "validation" if match[1] in VALIDATION_NAMES else match[1]
            files_of[split].append(path_ / name)
    if not any(files_of.values()):
        advice = "pass one file or another folder"
        if "dataset_info.json" in names:  # of `datasets`' cache, or of an incomplete save_to_disk
            advice = "write the data set again with datasets' save_to_disk or to_json"
        raise InputError(
            f"{path} has no file named after a split (train.jsonl, validation.csv, test.parquet, "
            f"…), but {', '.join(names[:8]) or 'no files'}: {advice}"
        )
    _check_complete(path, files_of)
    return {split: files for split, files in files_of.items() if files}


def _check_complete(path: str, files_of: Mapping[str, Sequence[Path]]) -> None:
    """Raise InputError if a split has parts of different sets, or several files."""
    for split, files in files_of.items():
        parts = {int(of[1]) for of in (_OF.search(file.name) for file in files) if of}
        if parts and parts != {len(files)}:
            raise InputError(
                f"{path} has {len(files)} files for the split {split!r}, named as parts of "
                f"{' and '.join(map(str, sorted(parts)))}: keep one complete set"
            )
        if len(files) > 1 and not all("-of-" in file.name for file in files):
            rivals = ", ".join(file.name for file in files)
            raise InputError(
                f"{path} has several files for the split {split!r}, {rivals}: keep one"
            )


def read(source: Source, split: str) -> Table:
    """Read the source's columns of one split."""
    files, split = split_files(source.path, split)
    return read_files(source, split, files)


def read_files(source: Source, split: str, files: Sequence[Path]) -> Table:
    """Read the source's columns of all files of one split."""
    parts, names = list(span_tables(source, split, _spans(files), _BATCH)), source.columns()
    columns = {name: [v for part in parts for v in part.columns[name]] for name in names}
    rows = [(part, i) for part in parts for i in range(part.length)]
    return Table(split, columns, lambda i: rows[i][0].where(rows[i][1]))


def tables(source: Source, split: str, rows: int) -> Iterator[Table]:
    """Read a split in tables of at most ``rows`` rows, so that it may be larger than memory."""
    files, split = split_files(source.path, split)
    return span_tables(source, split, _spans(files), rows)


def _spans(files: Sequence[Path]) -> list[Span]:
    return [Span(path) for path in files]


def span_tables(source: Source, split: str, spans: Iterable[Span], rows: int) -> Iterator[Table]:
    """Read spans of a split in tables of at most ``rows`` rows."""
    for span in spans:
        for columns, at in _batches(span, source, rows):
            yield Table(split, columns, partial(_where, span.path, at))


def peek(source: Source, split: str) -> tuple[list[str], Callable[[str], object]]:
    """Return the columns of a split, and a function from a column to its first value."""
    files, split = split_files(source.path, split)
    return peek_files(source, split, files)


def peek_files(
    source: Source, split: str, files: Sequence[Path]
) -> tuple[list[str], Callable[[str], object]]:
    """Return what ``peek`` returns, for the ``files`` of a split."""

    def first(name: str) -> object:
        one = replace(source, input_column=name, output_column=name, template="{input}")
        rows = (table.columns[name] for table in span_tables(one, split, _spans(files), 1))
        return next((row[0] for row in rows if row), None)

    return _names(files[0], source.separator), first


def _names(path: Path, separator: str) -> list[str]:
    form = _format(path)
    if form in COLUMN_FORMATS:
        return COLUMN_FORMATS[form].names(path, separator)
    rows = islice(_entries(Span(path)) if form else iter(()), _BATCH)
    names = dict.fromkeys(next(rows, ({}, 0))[0])
    with suppress(InputError):  # reading the rows reports an invalid later one
        names |= dict.fromkeys(name for row, _ in rows for name in row)
    return list(names)


def split_files(path: str, split: str) -> tuple[list[Path], str]:
    """Return the files of a split, and the name it has there."""
    files = find_splits(path)
    name = choose_split(path, list(files), split)
    return files[name], name


def has_format(path: str) -> bool:
    """Return whether a file of this name is in one of the formats read here."""
    return _format(Path(path)) is not None


def _format(path: Path) -> str | None:
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    return _FORMATS.get(suffix.lower())


def _batches(span: Span, source: Source, size: int) -> Iterator[Batch]:
    path, form, columns = span.path, _format(span.path), source.columns()
    if form is None:
        raise InputError(
            f"{path}: unknown file type; use .jsonl, .json, .csv, .tsv, .parquet or .arrow (also "
            ".gz)"
        )
    if form in COLUMN_FORMATS:
        start = 0
        for part in COLUMN_FORMATS[form].columns(path, source.separator, columns, size):
            end = start + len(part[columns[0]])
            yield part, list(range(start, end))
            start = end
        return
    required = [name for name in columns if name not in source.optional_columns()]
    entries = _entries(span)
    while chunk := list(islice(entries, size)):
        for row, at in chunk:
            if not all(name in row for name in required):
                check_columns(_where(span.path, [at], 0), row, required)
        yield {n: [row.get(n) for row, _ in chunk] for n in columns}, [at for _, at in chunk]


def _where(path: Path, at: Sequence[int], position: int) -> str:
    """Return FILE:LINE or "FILE: row NUMBER" for a row of a batch."""
    if _by_line(path):
        return line_name(path, at[position])
    return f"{path}: row {at[position] + 1}"


def _by_line(path: Path) -> bool:
    if _format(path) != "json":
        return _format(path) == "lines"
    lines = filter(str.strip, text_lines(path))
    first, second = next(lines, ""), next(lines, "")
    try:
        return bool(second) and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _entries(span: Span) -> Iterator[Entry]:
    return _lines(span) if _by_line(span.path) else _list(span.path)


def _lines(span: Span) -> Iterator[Entry]:
    for at, line in offset_lines(span.path, span.begin, span.end):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            name = line_name(span.path, at)
            raise InputError(f"{name}: invalid JSON: {error}; fix the line") from None
        if not isinstance(row, dict):
            raise _no_object(row, line_name(span.path, at))
        yield row, at


def _list(path: Path) -> Iterator[Entry]:
    try:
        entries = json.loads("".join(text_lines(path)))
    except (ValueError, RecursionError) as error:  # the latter if lists are nested too deeply
        line, reason = getattr(error, "lineno", 1), getattr(error, "msg", error)
        raise InputError(f"{path}:{line}: invalid JSON: {reason}; fix the file") from None
    rows = entries.get("data") if isinstance(entries, dict) else entries
    values = entries.values() if isinstance(entries, dict) and rows is None else ()
    if len(values) > 1 and all(map(_is_column, values)):
        raise InputError(
            f"{path} is one object of columns: write a list of objects, one per row, for example "
            "with pandas.read_json and to_json(orient='records')"
        )
    for number, row in enumerate(rows if isinstance(rows, list) else [entries]):
        if not isinstance(row, dict):
            raise _no_object(row, f"{path}: row {number + 1}")
        yield row, number


def _is_column(value: object) -> bool:
    """Return whether ``value`` is a list of values, not of messages, or pandas' values by row."""
    messages = isinstance(value, list) and any(isinstance(entry, dict) for entry in value)
    return isinstance(value, list | dict) and not messages


def _no_object(row: object, position: str) -> InputError:
    return InputError(
        f"{position}: expected a JSON object, found a {type(row).__name__}: write one row per line"
    )
