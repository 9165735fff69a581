"""``tasc finetune``: train adapters, all weights or a draft head."""

from tasc.training.core.schedule import TrainReport

from .._console import say


def show(report: TrainReport) -> None:
    """Print steps, losses and numbers of parameters."""
    kept_evaluations = [
        evaluation for evaluation in report.evaluations if evaluation.step == report.kept_step
    ]
    held_out = f", validation loss {kept_evaluations[-1].loss:.3f}" if kept_evaluations else ""
    say(
        f"{report.steps} steps in {report.seconds:.0f} s, training loss "
        f"{report.losses[-1]:.3f}{held_out}, {report.trainable_parameters:,} of "
        f"{report.total_parameters:,} parameters trained"
    )
    if report.kept_step < report.steps:
        early = "stopped early, " if report.stopped_early else ""
        say(f"{early}kept the weights of step {report.kept_step} (best validation result)")
    if report.cut_examples:
        say(f"{report.cut_examples:,} examples were too long and lost text; see tasc data")
