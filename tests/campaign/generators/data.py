"""Commands on a task file that a stranger broke."""

import gzip
import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.campaign.mutate import ODD, mutate_bytes, no_file
from tests.campaign.seeds import Seeds
from tests.data.files import contents

Rows = list[dict[str, Any]]
TEXTS = ["", " ", "\0", "\ufeff", "\ud800", "\u2028", "\x1b[31m", "a\r\nb", '"', "'", ",", "é" * 9]
TEXTS += ["x" * 200_000, "\t\n" * 50, "▁▁", "🏳️‍🌈", "<|endoftext|>", "=1+1"]
VALUES: list[Any] = [*ODD, 10**4000, ["a", 1, None], ["a", ["b"]], {"a": 1}, [" ", ""], ["\ud800"]]
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


CHANGES: tuple[Callable[[random.Random, Rows], None], ...]
CHANGES = (_values, _values, _column, _names, _wide, _few)


SUFFIXES = [".jsonl", ".jsonl", ".json", ".csv", ".parquet"]


def _written(rows: Rows, suffix: str, folder: Path) -> bytes:
    try:
        return contents(suffix[1:], folder, rows)
    except (pa.ArrowException, ValueError, OverflowError, IndexError):  # it cannot hold these rows
        return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _spoilt(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.2:
        encoding = rng.choice(["utf-16", "utf-8-sig", "utf-7"])
        return data.decode("utf-8", "replace").encode(encoding, "replace")
    return mutate_bytes(rng, data)


def _packed(rng: random.Random, data: bytes) -> bytes:
    packed = gzip.compress(data)
    return rng.choice([mutate_bytes(rng, packed), packed, data, packed + b"\0tail"])


def _broken(rng: random.Random, seeds: Seeds, sandbox: Path) -> Path:
    """Write a broken copy of the task, alone or as a split of a folder; returns what to give."""
    rows = [json.loads(line) for line in seeds.task.read_text().splitlines()]
    for _ in range(rng.choice([0, 1, 1, 2])):
        with suppress(KeyError, IndexError):  # a row or a column may be gone by now
            rng.choice(CHANGES)(rng, rows)
    suffix = rng.choice(SUFFIXES)
    data = _written(rows, suffix, sandbox)
    if rng.random() < 0.3:
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


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[object]:
    task, tokenizer = _broken(rng, seeds, sandbox), seeds.tokenizer
    return rng.choice(
        [
            ["analyze", task],
            ["analyze", task, "--tokenizer", tokenizer],
            ["augment", task, "--tokenizer", tokenizer, "--budget", "5"],
            ["index", task, "--tokenizer", tokenizer],
            ["vocab", tokenizer, tokenizer, "--data", task],
        ]
    )
