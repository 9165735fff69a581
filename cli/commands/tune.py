"""``tasc tune``: choose TASC-spec's options for a task without running a model."""

from tasc.benchmark.results.search import Tuning

from .._console import interval_text, say


def show(found: Tuning) -> None:
    """Print the best setting next to the default."""
    for name, trial in (("default", found.default), ("best", found.best)):
        interval = interval_text(trial.tokens_per_step_interval, ".2f")
        figure = f"{trial.tokens_per_step:.2f} tokens per step (95 % CI {interval})"
        say(f"{name}: {figure}, {trial.method}")
    default, best = found.default, found.best
    if best.method == default.method:
        say("No other setting is better.")
    elif best.tokens_per_step_interval[0] <= default.tokens_per_step:
        say("The difference may be chance: the default lies within the best setting's interval.")
