"""What tests of recipes share: the head of one, and data for it."""

import json
from pathlib import Path

HEAD = "name: x\ndescription: y\ndata: {path: task}\nsteps:\n"
ROWS = [{"input": f"number {i}", "output": f"value {i % 3} and {i % 3}"} for i in range(30)]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
