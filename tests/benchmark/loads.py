"""Comparisons of servers on a task of twelve prompts."""

import tasc
from tasc.benchmark.results.load import LoadResults

ROWS = [{"input": f"number {i}", "output": f"answer to number {i}"} for i in range(12)]


def measure(task, *urls, **options) -> LoadResults:
    given = {"source": str(task), "max_new_tokens": 9, "timeout": 5.0}
    return tasc.load_test(tasc.LoadOptions(endpoints=urls, **given | options))
