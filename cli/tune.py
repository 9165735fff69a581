"""``tasc tune``: choose TASC-spec's options for a task without running a model."""

from typing import Any

from ._command import Command
from ._console import say


def show(result: dict[str, Any]) -> None:
    """Print what was chosen and what it brings."""
    for name in ("default", "best"):
        trial = result[name]
        low, high = trial["tokens_per_step_interval"]
        say(
            f"{name}: {trial['tokens_per_step']:.2f} tokens a step (95 % interval {low:.2f} to "
            f"{high:.2f}), {trial['method']}"
        )


COMMAND = Command(
    "tune",
    help="Choose tasc-spec's options by simulation on held-out outputs; no model is run.",
    show=show,
    leaves=(("tuning", "tuning.json"),),
)
