import json

import pytest

from tasc.benchmark.results.conditions import Sample
from tests.benches import make_results, said
from tests.benchmark import judges, loads


@pytest.fixture
def bench(tmp_path):
    """A bench of three models on a task, and what says where its prompts are."""
    task, folder = tmp_path / "task", tmp_path / "bench"
    task.mkdir()
    folder.mkdir()
    (task / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in judges.ROWS))
    cells = [said(name, [f"{name} {i}" for i in range(12)], [1.0] * 12) for name in ("one", "two")]
    cells.insert(1, said("one", ["second method"] * 12, [1.0] * 12, method="tasc-spec"))
    cells.append(said("three", [f"three {i}" for i in range(12)], [1.0] * 12))
    made = make_results(*cells, references=tuple(row["output"] for row in judges.ROWS))
    samples = tuple(Sample.of(f"{row['input']}\n", row["output"]) for row in judges.ROWS)
    made = made.model_copy(update={"samples": samples})
    (folder / "results.json").write_text(json.dumps(made.to_dict()))
    asked = {"source": {"path": str(task)}, "split": "test"}
    (folder / "manifest.json").write_text(json.dumps({"command": "bench", "arguments": asked}))
    return folder


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in loads.ROWS))
    return tmp_path
