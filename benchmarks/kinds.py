"""Summarise benches by the reference of a sample, such as its kind of prompt.

Usage: python -m benchmarks.kinds RUN/results/FOLDER... [--json FILE]
"""

import csv
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from benchmarks.figures import publish, script

_KEPT = ("tokens_per_step", "tokens_per_second", "ms_per_sample", "lossless", "seconds")
# MT-Bench's kinds are one kind of Spec-Bench.
_TURNS = ["writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"]


def main() -> None:
    """Print the speed-up of each method over the first one, by kind, as JSON."""
    parser = script(__doc__)
    parser.add_argument("benches", type=Path, nargs="+", help="folders of tasc bench")
    options = parser.parse_args()
    publish({"benches": [summary(folder) for folder in options.benches]}, options.json)


def summary(folder: Path) -> dict[str, Any]:
    """Return the figures of a bench, and the speed-ups of its kinds."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    cells = results["cells"]
    first = cells[0]["method"]
    prompts: Counter[str] = Counter()
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    with (folder / "samples.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            kind = "multi-turn" if row["reference"] in _TURNS else row["reference"]
            for group in ("all", kind):
                prompts[group] += row["method"] == first
                seconds[group][row["method"]] += float(row["ms"])
    names = {"tasc-spec:corpus=false": "tasc-spec"}
    return {
        "measured": {name: results[name] for name in ("started", "environment")},
        "data": results["task"]["source"].removesuffix("/question.jsonl").rpartition("/")[2],
        "dtype": results["settings"]["dtype"],
        "methods": {cell["method"]: {key: cell.get(key) for key in _KEPT} for cell in cells},
        "kinds": [
            {"kind": kind, "prompts": prompts[kind]}
            | {names.get(name, name): taken[first] / each for name, each in taken.items()}
            for kind, taken in seconds.items()
            if prompts[kind] > 1
        ],
    }


if __name__ == "__main__":
    main()
