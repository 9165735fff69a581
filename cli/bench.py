"""``tasc bench``: measure models × methods on one decoding loop and report."""

from typing import Any

from ._command import Command
from ._console import say, table

SHORT = {"exact_match": "exact", "token_accuracy": "tok.acc", "micro_f1": "F1"}


def show(result: dict[str, Any]) -> None:
    """Print the table of cells; ms, tokens and steps are means per output.

    In a batch the milliseconds of an output are its share of the batch's time.
    """
    from tasc.bench.record import speedup

    rows, settings = result["cells"], result["settings"]
    metrics, sampling = list(rows[0]["quality"]), settings["sampling"]
    columns = ["model", "method", "ms", "speed", "tokens", "steps", "tokens/step", "lossless"]
    table(
        f"{result['task']['source']}: {result['task']['samples']} samples, "
        f"batch {settings['batch_size']}, {settings['dtype']} on {settings['device']}"
        + (f", temperature {sampling['temperature']:g}, {sampling['verify']}" if sampling else ""),
        [*columns, *(SHORT[m] for m in metrics)],
        [
            [
                r["model"],
                r["method"],
                f"{r['ms_per_sample']:.2f}",
                f"{speedup(r, rows[0]):.2f}×",
                f"{r['tokens_per_output']:.2f}",
                f"{r['decoding_steps_per_output']:.2f}",
                f"{r['tokens_per_step']:.2f}",
                _lossless(r["lossless"]),
                *(f"{r['quality'][m]:.3f}" for m in metrics),
            ]
            for r in rows
        ],
        text_columns=2,
    )
    if rows[0]["lossless"] is None:
        say("sampled: outputs differ by chance, so speed is by tokens per second")
    for found in result["reference"]:
        say(reference_line(found, settings["dtype"]))


def reference_line(found: dict[str, Any], dtype: str) -> str:
    """Say how many greedy outputs of a model are those of transformers' own generate."""
    name, counts = f"{found['model']}, {found['method']}", f"{found['identical']} of {found['of']}"
    if found["identical"] == found["of"]:
        return f"as transformers' own generate: {counts} outputs of {name}"
    if dtype == "float32":
        return (
            f"NOT LOSSLESS: only {counts} outputs of {name} are those of transformers' own "
            f"generate (margin {found['largest_margin']:.3g})"
        )
    return (
        f"match rate with transformers' own generate: {found['match_rate']:.0%}, {counts} outputs "
        f"of {name} (margin {found['largest_margin']:.3g})"
    )


def _lossless(found: dict[str, Any] | None) -> str:
    """Count identical outputs, and the margin of the largest difference where there is one."""
    if found is None:
        return "sampled"
    margin = found.get("largest_margin")
    ties = "" if margin is None else f" (margin {margin:.3g})"
    return f"{found['identical']}/{found['of']}{ties}"


COMMAND = Command(
    "bench",
    help="Measure models and methods side by side; writes results.json and report.html.",
    show=show,
    leaves=(("report", "report.html"),),
)
