"""``tasc finetune``: adapters or all weights, with or without new tokens, or a draft head."""

from typing import TYPE_CHECKING

from .._console import say

if TYPE_CHECKING:
    from tasc.training.core.schedule import TrainReport


def show(report: "TrainReport") -> None:
    """Print what the training did."""
    kept = [found for found in report.evaluations if found.step == report.kept_step]
    held_out = f", validation loss {kept[-1].loss:.3f}" if kept else ""
    say(
        f"{report.steps} steps in {report.seconds:.0f} s, training loss "
        f"{report.losses[-1]:.3f}{held_out}, {report.trainable_parameters:,} of "
        f"{report.total_parameters:,} parameters trained"
    )
    if report.kept_step < report.steps:
        early = "stopped early, " if report.stopped_early else ""
        say(f"{early}kept the weights of step {report.kept_step}, the best validation result")
    if report.cut_examples:
        say(f"{report.cut_examples:,} examples were longer than allowed, and cut")
