"""Commands on a task file that a stranger broke."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.campaign.mutate import no_file

if TYPE_CHECKING:
    from tests.campaign.seeds import Seeds

Rows = list[dict[str, Any]]
DEEP = "[" * 50_000 + "]" * 50_000
TEXTS = ["", " ", "\0", "\ufeff", "\ud800", "\u2028", "\x1b[31m", "a\r\nb", '"', "'", ",", "é" * 9]
TEXTS += ["x" * 200_000, "\t\n" * 50, "▁▁", "🏳️‍🌈", "<|endoftext|>", "=1+1"]
VALUES: list[Any] = [None, True, -1, 1e308, float("nan"), float("inf"), 10**4000, [], [[]], {}]
VALUES += [["a", 1, None], ["a", ["b"]], {"a": 1}, [" ", ""], ["\ud800"]]
NAMES = ["", " ", "input", "output", "in\nput", "\ud800", "Unnamed: 1", "input ", "INPUT"]


def _values(rng: random.Random, rows: Rows) -> None:
    for _ in range(rng.randrange(1, 6)):
        row = rng.choice(rows)
        row[rng.choice(list(row))] = rng.choice(TEXTS + VALUES)


def _column(rng: random.Random, rows: Rows) -> None:
    name, values = rng.choice(["input", "output"]), rng.choice([TEXTS, VALUES, [""], [["a", "b"]]])
    for row in rows:
        row[name] = rng.choice(values)


def _names(rng: random.Random, rows: Rows) -> None:
    old, new = rng.choice(["input", "output"]), rng.choice(NAMES)
    for row in rows if rng.random() < 0.5 else rows[rng.randrange(len(rows)) :]:
        row[new] = row.pop(old)


def _wide(rng: random.Random, rows: Rows) -> None:
    extra = {f"c{n}": n for n in range(rng.choice([100, 20_000]))}
    rows[:] = [row | extra for row in rows[:4]]


def _few(rng: random.Random, rows: Rows) -> None:
    del rows[rng.choice([0, 1, 2]) :]


CHANGES: list[Callable[[random.Random, Rows], None]] = [_values, _values, _column, _names, _wide]
CHANGES.append(_few)


def _as_lines(rows: Rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _as_json(rows: Rows) -> bytes:
    return json.dumps(rows, indent=1).encode()


def _as_csv(rows: Rows) -> bytes:
    target = io.StringIO(newline="")
    writer = csv.DictWriter(target, list(rows[0]) if rows else ["input", "output"], restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: row.get(name, "") for name in writer.fieldnames})
    return target.getvalue().encode(errors="surrogatepass")


def _as_parquet(rows: Rows) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = io.BytesIO()
    try:
        pq.write_table(pa.Table.from_pylist(rows), target)
    except (pa.ArrowException, UnicodeError, OverflowError):  # a column of mixed types, and so on
        return b"PAR1" + b"\0" * 100 + b"PAR1"
    return target.getvalue()


FORMATS = {".jsonl": _as_lines, ".json": _as_json, ".csv": _as_csv, ".parquet": _as_parquet}


def _spoilt(rng: random.Random, data: bytes) -> bytes:
    kind = rng.randrange(8)
    position = rng.randrange(len(data) + 1)
    if kind == 0:
        return data[:position]
    if kind == 1:
        return data[:position] + bytes([rng.randrange(256)]) + data[position + 1 :]
    inserted = [
        b"\0",
        b"\xff",
        b"\n",
        b'"',
        b"\xef\xbb\xbf",
        DEEP.encode(),
        b"9" * 100_000,
        b"\x1a",
    ]
    if kind == 2:
        return data[:position] + rng.choice(inserted) + data[position:]
    if kind == 3:
        return data.decode("utf-8", "replace").encode(
            rng.choice(["utf-16", "utf-8-sig", "utf-7"]), "replace"
        )
    return (
        data if kind > 4 else rng.choice([b"", b"\n\n\n", b"[]", b"null", b"{}", b"[[]]", b",,\n"])
    )


def _packed(rng: random.Random, data: bytes) -> bytes:
    packed = gzip.compress(data)
    kind = rng.randrange(5)
    if kind == 0:
        return packed[: rng.randrange(len(packed))]
    if kind == 1:
        position = rng.randrange(len(packed))
        return packed[:position] + bytes([rng.randrange(256)]) + packed[position + 1 :]
    return [packed, data, packed + b"\0tail"][kind - 2]


def _broken(rng: random.Random, seeds: Seeds, sandbox: Path) -> Path:
    """Write a broken copy of the task, alone or as a split of a folder; returns what to give."""
    rows = [json.loads(line) for line in seeds.task.read_text().splitlines()]
    for _ in range(rng.choice([0, 1, 1, 2])):
        if rows:
            try:
                rng.choice(CHANGES)(rng, rows)
            except KeyError:
                continue  # the column has another name by now
    suffix = rng.choice([".jsonl", *FORMATS])
    data = FORMATS[suffix](rows)
    if rng.random() < 0.5:
        data = _spoilt(rng, data)
    if rng.random() < 0.2:
        data, suffix = _packed(rng, data), f"{suffix}.gz"
    given = path = sandbox / f"task{suffix}"
    if rng.random() < 0.2:
        given = sandbox / "folder"
        shutil.copytree(seeds.folder, given)
        (given / "train.jsonl").unlink()
        path = given / f"train{suffix}"
    if rng.random() < 0.08:
        no_file(rng, path)
    else:
        path.write_bytes(data)
    return given


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[str]:
    """Write a broken task, and return a command that reads it."""
    task, tokenizer = str(_broken(rng, seeds, sandbox)), str(seeds.tokenizer)
    return rng.choice(
        [
            ["analyze", task],
            ["analyze", task, "--tokenizer", tokenizer],
            ["augment", task, "--tokenizer", tokenizer, "--budget", "5"],
            ["index", task, "--tokenizer", tokenizer],
            ["vocab", tokenizer, tokenizer, "--data", task],
        ]
    )
