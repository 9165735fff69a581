"""Files of the user: one file, or a folder with one for each split.

CSV and Parquet are read by `datasets`, whose cache goes to a temporary folder. JSON is read here:
`datasets` reports a bad line without its number and refuses unused columns of mixed type.
"""

import csv
import gzip
import io
import json
import re
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from tasc.data.foreign import one_line
from tasc.data.quiet import quiet_datasets
from tasc.data.source import Source
from tasc.data.table import VALIDATION_NAMES, Table, check_columns, choose_split
from tasc.disk import no_room
from tasc.errors import InputError
from tasc.scratch import scratch

_BATCH = 4096  # rows handed on at a time
_FORMATS = {".jsonl": "lines", ".ndjson": "lines", ".json": "json", ".csv": "csv"}
_FORMATS[".parquet"] = "parquet"
_SPLIT_FILE = re.compile(
    r"(train|validation|valid|val|dev|test)(-\d+-of-\d+)?(\.(?:jsonl|ndjson|json|csv|parquet))(\.gz)?"
)


Entry = tuple[dict[str, Any], str]  # a row, and where it stands


@dataclass
class _Rows:
    """Rows under construction: the wanted columns, and where each row stands."""

    columns: dict[str, list[object]]
    places: list[str] = field(default_factory=list)

    def add(self, row: dict[str, Any], place: str) -> None:
        check_columns(place, row, list(self.columns))
        for name, values in self.columns.items():
            values.append(row[name])
        self.places.append(place)

    def extend(self, rows: "_Rows") -> None:
        for name, values in self.columns.items():
            values.extend(rows.columns[name])
        self.places.extend(rows.places)


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
    place = Path(path).expanduser()
    if place.is_file():
        return {"train": [place]}
    if not place.is_dir():
        raise InputError(f"{path}: no such file or folder")
    names = sorted(entry.name for entry in place.iterdir() if entry.is_file())
    found: dict[str, list[Path]] = {"train": [], "validation": [], "test": []}
    for name in names:
        match = _SPLIT_FILE.fullmatch(name)
        if match:
            split = "validation" if match[1] in VALIDATION_NAMES else match[1]
            found[split].append(place / name)
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
    rows = _Rows({name: [] for name in source.columns()})
    for path in files:
        for batch in _batches(path, source.columns(), _BATCH):
            rows.extend(batch)
    return Table(split, rows.columns, rows.places.__getitem__)


def tables(source: Source, split: str, rows: int) -> Iterator[Table]:
    """Read the same in tables of at most ``rows`` rows: files may be larger than memory."""
    files, split = split_files(source.path, split)
    for path in files:
        for batch in _batches(path, source.columns(), rows):
            yield Table(split, batch.columns, batch.places.__getitem__)


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


def _batches(path: Path, columns: Sequence[str], size: int) -> Iterator[_Rows]:
    form = _format(path)
    if form is None:
        raise InputError(
            f"{path}: unknown kind of file; expected .jsonl, .json, .csv or .parquet (also .gz)"
        )
    if form in {"csv", "parquet"}:
        yield from _by_datasets(path, form, columns, size)
        return
    entries = _list(path) if form == "json" and _starts_with_list(path) else _lines(path)
    while chunk := list(islice(entries, size)):
        rows = _Rows({name: [] for name in columns})
        for row, place in chunk:
            rows.add(row, place)
        yield rows


def _bytes_lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            yield from lines
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _text_lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(_bytes_lines(path), start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}:{number}: invalid UTF-8 (byte 0x{line[error.start]:02x} at column "
                f"{error.start + 1}); save the file as UTF-8"
            ) from None


def _lines(path: Path) -> Iterator[Entry]:
    for number, line in enumerate(_text_lines(path), start=1):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{number}: invalid JSON: {error}") from None
        yield _object(row, f"{path}:{number}")


def _starts_with_list(path: Path) -> bool:
    for line in _text_lines(path):
        if line.strip():
            return line.lstrip().startswith("[")
    return False


def _list(path: Path) -> Iterator[Entry]:
    try:
        entries = json.loads("".join(_text_lines(path)))
    except (ValueError, RecursionError) as error:  # the latter where lists are nested too deeply
        line, why = getattr(error, "lineno", 1), getattr(error, "msg", error)
        raise InputError(f"{path}:{line}: invalid JSON: {why}") from None
    for number, row in enumerate(entries, start=1):
        yield _object(row, f"{path}: row {number}")


def _object(row: object, place: str) -> Entry:
    if not isinstance(row, dict):
        raise InputError(f"{place}: expected a JSON object, saw a {type(row).__name__}")
    return row, place


def _by_datasets(path: Path, form: str, columns: Sequence[str], size: int) -> Iterator[_Rows]:
    import datasets

    with scratch() as folder, quiet_datasets():
        plain = _unpacked(path, folder) if path.suffix == ".gz" else path
        options: dict[str, Any] = {}
        if form == "csv":
            header = _csv_header(path)
            if not header:
                return
            texts = datasets.Features({name: datasets.Value("string") for name in header})
            options = {"features": texts, "keep_default_na": False}
        try:
            table = datasets.load_dataset(
                form, data_files=str(plain), split="train", cache_dir=str(folder), **options
            )
        except Exception as error:  # datasets, pandas and pyarrow each raise their own
            if no_room(error):
                raise
            raise InputError(f"{path}: invalid {form.upper()}: {one_line(error)}") from None
        check_columns(str(path), table.column_names, columns)
        for start in range(0, len(table), size):
            part = table[start : start + size]
            places = [f"{path}: row {start + i}" for i in range(1, len(part[columns[0]]) + 1)]
            yield _Rows({name: part[name] for name in columns}, places)


def _unpacked(path: Path, folder: Path) -> Path:
    copy = folder / path.stem
    with copy.open("wb") as target:
        target.writelines(_bytes_lines(path))
    return copy


def _csv_header(path: Path) -> list[str]:
    """Return the columns as pandas names them, none where no row follows; the file must be UTF-8.

    Rows that are wider than the names are refused: pandas would shift them.
    """
    lines = (part for line in _text_lines(path) for part in io.StringIO(line, newline=""))
    rows = csv.reader(lines)
    try:
        names, first = next(filter(None, rows), []), next(filter(None, rows), [])
    except csv.Error as error:
        raise InputError(f"{path}:{rows.line_num}: invalid CSV: {error}") from None
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise InputError(f"{path}:1: the column {twice[0]!r} is there twice; rename one")
    if len(first) > len(names):
        wide = f"{path}:{rows.line_num}: {len(first)} fields under {len(names)} names"
        raise InputError(f"{wide}; quote a text that holds commas, or name each column")
    deque(lines, maxlen=0)
    return [name or f"Unnamed: {i}" for i, name in enumerate(names)] if first else []
