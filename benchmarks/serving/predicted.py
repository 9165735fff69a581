"""Compare the predictions of ``tasc analyze --serve vllm`` with vLLM's counts and times.

The prediction uses reference outputs and no model: forwards and drafted tokens per output, for one
request at a time. A forward over one token costs 1; each further token, of the prompt or drafted,
adds a share, as in adaptive drafting. Usage:

    python -m benchmarks.serving.predicted --task NAME --served FILE --analyses MODEL=FOLDER ...
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.figures import publish, script
from tasc.models.cost_model import TOKEN_COST

NEAR = 0.15  # largest error of a good prediction, relative to the measurement


def error_of(predicted: float, measured: float) -> dict[str, float | bool]:
    """Return both figures and the relative error of the prediction."""
    error = predicted / measured - 1
    return {
        "predicted": predicted,
        "measured": measured,
        "error": error,
        "near": abs(error) <= NEAR,
    }


def speedup(cell: dict[str, Any], baseline: str) -> float:
    """Return a measured speed-up, in CPU seconds if there are any."""
    name = f"times_{baseline}"
    found: float = cell.get(f"{name}_by_processor_time", cell[name])
    return found


def compared(
    drafts: dict[str, dict[str, Any]], cells: dict[str, Any], cost: float
) -> dict[str, dict[str, Any]]:
    """Return prediction and measurement by arm; the first model alone is the baseline.

    ``drafts`` is the ``serving`` part of each model's analysis, ``cells`` the measured figures of
    one request at a time, ``cost`` the share of a forward per token.
    """
    first, found = 0.0, dict[str, dict[str, Any]]()
    for model, predicted in drafts.items():
        trial, read = predicted["trials"][-1], cost * (predicted["prompt_tokens"] - 1)
        without = trial["tokens_per_output"] + read
        drafting = cost * trial["drafted_tokens"] / trial["samples"]
        with_drafts = trial["steps_per_output"] + drafting + read
        first = first or without
        alone, ours = cells[f"{model} alone"], cells[f"{model} ours"]
        found[f"{model} alone"] = {
            "forwards_a_request": error_of(trial["tokens_per_output"], alone["forwards_a_request"]),
            "times_first": error_of(first / without, speedup(alone, "first")),
        }
        found[f"{model} ours"] = {
            "forwards_a_request": error_of(trial["steps_per_output"], ours["forwards_a_request"]),
            "accepted_length": error_of(trial["engine_accepted_length"], ours["accepted_length"]),
            "times_alone": error_of(without / with_drafts, speedup(ours, "alone")),
            "times_first": error_of(first / with_drafts, speedup(ours, "first")),
        }
    return found


def main() -> None:
    """Compare the figures of one request at a time and print them as JSON."""
    parser = script(__doc__, task=str, served=Path, cost=TOKEN_COST)
    parser.add_argument("--analyses", nargs="+", required=True, help="MODEL=FOLDER of tasc analyze")
    given = parser.parse_args()
    drafts = {
        model: json.loads((Path(folder) / "analysis.json").read_text(encoding="utf-8"))["serving"]
        for model, _, folder in (named.partition("=") for named in given.analyses)
    }
    cells = json.loads(given.served.read_text(encoding="utf-8"))["concurrency"]["1"]
    arms = compared(drafts, cells, given.cost)
    publish({"task": given.task, "cost": given.cost, "arms": arms}, given.json)


if __name__ == "__main__":
    main()
