"""What ``tasc analyze --serve vllm`` predicted beside what vLLM then counted and took.

The prediction knows the reference outputs and no model: forwards of an output and tokens drafted,
for one request at a time. A forward over one token is taken to cost 1, and each more token, of the
prompt or drafted, a share on top, as adaptive drafting assumes. Usage:

    python -m benchmarks.serving.predicted --task NAME --served FILE --analyses MODEL=FOLDER ...
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.figures import publish, script
from tasc.models.cost_model import TOKEN_COST

NEAR = 0.15  # of what was measured


def predict(trial: dict[str, Any], prompt: float, cost: float) -> dict[str, float]:
    """Return accepted length by vLLM's definition, forwards, and their time in forwards."""
    read = cost * (prompt - 1)
    drafted = trial["drafted_tokens"] / trial["samples"]
    return {
        "accepted_length": trial["engine_accepted_length"],
        "forwards_a_request": trial["steps_per_output"],
        "forwards_alone": trial["tokens_per_output"],
        "alone": trial["tokens_per_output"] + read,
        "ours": trial["steps_per_output"] + cost * drafted + read,
    }


def beside(told: float, measured: float) -> dict[str, float | bool]:
    """Return both, and how far off the prediction was."""
    error = told / measured - 1
    return {"predicted": told, "measured": measured, "error": error, "near": abs(error) <= NEAR}


def speedup(cell: dict[str, Any], against: str) -> float:
    """Return a measured speed-up, by the seconds of the processor where they were taken."""
    name = f"times_{against}"
    found: float = cell.get(f"{name}_by_processor_time", cell[name])
    return found


def compared(
    figures: dict[str, dict[str, float]], cells: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return by arm what was predicted and measured; speed is against the first model alone.

    ``cells`` are the figures of one request at a time.
    """
    first = next(iter(figures.values()))["alone"]
    found: dict[str, dict[str, Any]] = {}
    for model, told in figures.items():
        alone, ours = cells[f"{model} alone"], cells[f"{model} ours"]
        found[f"{model} alone"] = {
            "forwards_a_request": beside(told["forwards_alone"], alone["forwards_a_request"]),
            "times_first": beside(first / told["alone"], speedup(alone, "first")),
        }
        found[f"{model} ours"] = {
            "forwards_a_request": beside(told["forwards_a_request"], ours["forwards_a_request"]),
            "accepted_length": beside(told["accepted_length"], ours["accepted_length"]),
            "times_alone": beside(told["alone"] / told["ours"], speedup(ours, "alone")),
            "times_first": beside(first / told["ours"], speedup(ours, "first")),
        }
    return found


def main() -> None:
    """Compare the figures of one request at a time."""
    parser = script(__doc__)
    parser.add_argument("--served", type=Path, required=True, help="figures of make bench-serving")
    parser.add_argument("--analyses", nargs="+", required=True, help="MODEL=FOLDER of tasc analyze")
    parser.add_argument("--task", required=True, help="its name, for the table")
    parser.add_argument("--cost", type=float, default=TOKEN_COST, help="of a drafted token")
    given = parser.parse_args()
    figures = {}
    for model, _, folder in (named.partition("=") for named in given.analyses):
        found = json.loads((Path(folder) / "analysis.json").read_text(encoding="utf-8"))
        drafts = found["serving"]
        figures[model] = predict(drafts["trials"][-1], drafts["prompt_tokens"], given.cost)
    cells = json.loads(given.served.read_text(encoding="utf-8"))["concurrency"]["1"]
    publish({"task": given.task, "cost": given.cost, "arms": compared(figures, cells)}, given.json)


if __name__ == "__main__":
    main()
