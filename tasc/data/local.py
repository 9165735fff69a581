"""Files of the user: one file, or a folder with one for each split.

They are read here and not by `datasets`, which reports a bad line without its number, refuses
unused columns of mixed type, and takes a minute for a table of many columns.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from tasc.data.lines import text_lines
from tasc.data.source import Source
from tasc.data.table import VALIDATION_NAMES, Table, check_columns, choose_split
from tasc.data.tabular import csv_columns, csv_names, parquet_columns, parquet_names
from tasc.errors import InputError

_BATCH = 4096  # rows handed on at a time
_FORMATS = {".jsonl": "lines", ".ndjson": "lines", ".json": "json", ".csv": "csv"}
_FORMATS[".parquet"] = "parquet"
_SPLIT_FILE = re.compile(
    r"(train|validation|valid|val|dev|test)(-\d+-of-\d+)?(\.(?:jsonl|ndjson|json|csv|parquet))(\.gz)?"
)


Entry = tuple[dict[str, Any], str]  # a row, and where it stands


Batch = tuple[dict[str, list[Any]], list[str]]  # the wanted columns, and where each row stands


def is_local(path: str) -> bool:
    """Whether ``path`` is, or can only be meant as, a file or folder."""
    if path.startswith(("/", ".", "~")) or path.count("/") > 1:
        return True
    return Path(path).exists() or _format(Path(path)) is not None


def find_splits(path: str) -> dict[str, list[Path]]:
    """Return the files of each split, in the order train, validation, test.

    Raises:
        InputError: nothing is there, or the folder has no file named after a split.
    """
    path_ = Path(path).expanduser()
    if path_.is_file():
        return {"train": [path_]}
    if not path_.is_dir():
        raise InputError(f"{path}: no such file or folder: name one, a Hub id, or builtin:NAME")
    names = sorted(entry.name for entry in path_.iterdir() if entry.is_file())
    found: dict[str, list[Path]] = {"train": [], "validation": [], "test": []}
    for name in names:
        match = _SPLIT_FILE.fullmatch(name)
        if match:
            split = "validation" if match[1] in VALIDATION_NAMES else match[1]
            found[split].append(path_ / name)
    found = {split: files for split, files in found.items() if files}
    for split, files in found.items():
        _refuse_rivals(path, split, files)
    if not found:
        raise InputError(
            f"{path}: no file named after a split (train.jsonl, validation.csv, test.parquet, "
            f"…); it has {', '.join(names[:8]) or 'no files'}: name one of them"
        )
    return found


def read(source: Source, split: str) -> Table:
    """Read the source's columns of one split."""
    files, split = split_files(source.path, split)
    batches = [batch for path in files for batch in _batches(path, source.columns(), _BATCH)]
    columns = {name: [v for part, _ in batches for v in part[name]] for name in source.columns()}
    positions = [position for _, part in batches for position in part]
    return Table(split, columns, positions.__getitem__)


def tables(source: Source, split: str, rows: int) -> Iterator[Table]:
    """Read the same in tables of at most ``rows`` rows: files may be larger than memory."""
    files, split = split_files(source.path, split)
    for path in files:
        for columns, positions in _batches(path, source.columns(), rows):
            yield Table(split, columns, positions.__getitem__)


def peek(source: Source, split: str) -> tuple[list[str], Callable[[str], object]]:
    """Return the columns of a split by its first file, and what reads one in the first row."""
    files, split = split_files(source.path, split)

    def first(name: str) -> object:
        one = replace(source, input_column=name, output_column=name, template="{input}")
        return next(
            (table.columns[name][0] for table in tables(one, split, 1) if table.length), None
        )

    return _names(files[0]), first


def _names(path: Path) -> list[str]:
    form = _format(path)
    if form in {"csv", "parquet"}:
        return csv_names(path) if form == "csv" else parquet_names(path)
    row, _ = next(_entries(path, form), ({}, "")) if form else ({}, "")
    return list(row)


def split_files(path: str, split: str) -> tuple[list[Path], str]:
    """Return the files of a split, and the name of the split that was found."""
    files = find_splits(path)
    name = choose_split(path, list(files), split)
    return files[name], name


def _refuse_rivals(folder: str, split: str, files: Sequence[Path]) -> None:
    if len(files) > 1 and not all("-of-" in path.name for path in files):
        names = ", ".join(path.name for path in files)
        raise InputError(f"{folder}: several files for the split {split!r}: {names}; keep one")


def _format(path: Path) -> str | None:
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    return _FORMATS.get(suffix.lower())


def _batches(path: Path, columns: Sequence[str], size: int) -> Iterator[Batch]:
    form = _format(path)
    if form is None:
        raise InputError(
            f"{path}: unknown kind of file; give .jsonl, .json, .csv or .parquet (also .gz)"
        )
    if form in {"csv", "parquet"}:
        yield from _table(path, form, columns, size)
        return
    entries = (_checked(entry, columns) for entry in _entries(path, form))
    while chunk := list(islice(entries, size)):
        yield (
            {n: [row[n] for row, _ in chunk] for n in columns},
            [position for _, position in chunk],
        )


def _entries(path: Path, form: str) -> Iterator[Entry]:
    return _list(path) if form == "json" and _starts_with_list(path) else _lines(path)


def _checked(entry: Entry, columns: Sequence[str]) -> Entry:
    check_columns(entry[1], entry[0], columns)
    return entry


def _lines(path: Path) -> Iterator[Entry]:
    for number, line in enumerate(text_lines(path), start=1):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{number}: invalid JSON: {error}; mend the line") from None
        yield _object(row, f"{path}:{number}")


def _starts_with_list(path: Path) -> bool:
    for line in text_lines(path):
        if line.strip():
            return line.lstrip().startswith("[")
    return False


def _list(path: Path) -> Iterator[Entry]:
    try:
        entries = json.loads("".join(text_lines(path)))
    except (ValueError, RecursionError) as error:  # the latter where lists are nested too deeply
        line, why = getattr(error, "lineno", 1), getattr(error, "msg", error)
        raise InputError(f"{path}:{line}: invalid JSON: {why}; mend the file") from None
    for number, row in enumerate(entries, start=1):
        yield _object(row, f"{path}: row {number}")


def _object(row: object, position: str) -> Entry:
    if not isinstance(row, dict):
        raise InputError(
            f"{position}: expected a JSON object, saw a {type(row).__name__}: write one row a line"
        )
    return row, position


def _table(path: Path, form: str, columns: Sequence[str], size: int) -> Iterator[Batch]:
    read_columns = csv_columns if form == "csv" else parquet_columns
    start = 0
    for part in read_columns(path, columns, size):
        count = len(part[columns[0]])
        yield part, [f"{path}: row {start + i}" for i in range(1, count + 1)]
        start += count
