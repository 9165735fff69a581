"""Tasks that benches, analyses and comparisons of servers run on."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import tasc
from tasc.benchmark.results.load import LoadResults
from tests.recipes import write

Row = dict[str, str]
ROWS = [{"input": f"number {i}", "output": f"answer to number {i}"} for i in range(12)]
WORDS = ["alarm_set", "play_music", "weather_query", "time: nine", "genre: jazz", "date: today"]


def measure(task, *urls, **options) -> LoadResults:
    given = {"source": str(task), "max_new_tokens": 9, "timeout": 5.0}
    return tasc.load_test(tasc.LoadOptions(endpoints=urls, **given | options))


def write_task(folder: Path, **splits: list[Row]) -> Path:
    for split, rows in splits.items():
        write(folder / f"{split}.jsonl", rows)
    return folder


def intents(count: int, seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    outputs = ["intent: " + ", ".join(rng.choice(WORDS, 4)) for _ in range(count)]
    return [{"input": f"say {i}", "output": output} for i, output in enumerate(outputs)]


def split_of(prompts: Sequence[str], outputs: Sequence[str] = ()) -> Any:
    count = len(prompts)
    outputs = outputs or ["x"] * count
    return SimpleNamespace(prompts=prompts, outputs=outputs, examples=[None] * count)
