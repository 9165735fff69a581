"""Examples in files of every kind, and what is said of a source that cannot be read."""

import csv
import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.errors import InputError

ROWS = [
    {"id": 1, "input": "wake me at nine", "output": "alarm_set nine"},
    {"id": 2, "input": "play jazz", "output": "play_music jazz"},
    {"id": 3, "input": "naïve 日本語 😀", "output": "é — ü"},
]


def jsonl(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def write(path: Path, contents: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(contents) if path.suffix == ".gz" else contents)
    return str(path)


def source(folder, rows, **named):
    return Source(write(folder / "task.jsonl", jsonl(rows)), **named)


def read(folder, rows, **named):
    return load(source(folder, rows, **named), "train")


def pairs(path):
    return [(e.input, e.output) for e in load(Source(str(path)), "train").examples]


def as_csv(rows, path):
    with path.open("w", newline="", encoding="utf-8") as target:
        writer = csv.DictWriter(target, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path.read_bytes()


def as_parquet(rows, path):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path.read_bytes()


def contents(kind, folder, rows=ROWS):
    spare = folder / "spare"
    if kind == "csv":
        return as_csv(rows, spare)
    if kind == "parquet":
        return as_parquet(rows, spare)
    return json.dumps(rows, indent=1).encode() if kind == "json" else jsonl(rows)


def no_file(path, kind):
    """Put there what is no file: a folder, a pipe, or a link that leads out and has no end."""
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


def message(source, split="train", **options):
    """The one line that the user sees."""
    with pytest.raises(InputError) as caught:
        load(source, split, **options)
    line = str(caught.value)
    assert "\n" not in line
    return line
