"""Rows of examples, written for commands to read, and the head of a recipe."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

HEAD = "name: x\ndescription: y\ndata: {path: task}\nsteps:\n"
ROWS = [{"input": f"number {i}", "output": f"value {i % 3} and {i % 3}"} for i in range(30)]


def write_recipe(folder: Path, steps: str) -> Path:
    path = folder / "r.yaml"
    path.write_text(HEAD + steps, encoding="utf-8")
    return path


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_splits(folder: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    for split in ("train", "test"):
        write(folder / f"{split}.jsonl", rows)
    return folder
