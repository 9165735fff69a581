"""``tasc tune``: choose TASC-spec's options for a task without running a model."""

from tasc.benchmark.results.search import Tuning

from .._console import bounds_text, noted, say, warn


def show(tuning: Tuning) -> None:
    """Print the best setting next to the default."""
    for name, trial in (("default", tuning.default), ("best", tuning.best)):
        figure = f"{trial.steps_per_output:.2f} steps per output, "
        per_step = f"{trial.tokens_per_step:.2f} tokens per step"
        figure += noted(per_step, bounds_text(trial.interval, ".2f"))
        say(f"{name}: {figure}, {trial.method}")
    default, best = tuning.default, tuning.best
    if best.method == default.method:
        say("No other setting is better.")
    elif not best.interval or best.interval[0] <= default.tokens_per_step:
        say("The difference may be chance: no interval of the best setting lies above the default.")
    if tuning.split == tuning.corpus_split:
        warn(f"drafts come from split {tuning.split} itself, so the steps are of seen outputs")
