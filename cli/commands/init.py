"""``tasc init``: write a recipe for your own data."""

import json

from tasc.commands.starter.options import InitOptions, Started
from tasc.commands.starter.write import start_recipe

from .._console import print_json, say
from .._derive import RunFlags
from .._estimates import show_estimates
from .._progress import show_progress
from .analyze import show_verdict


def run(options: InitOptions, flags: RunFlags) -> None:
    """Write a recipe and print its path."""
    with show_progress() as progress:
        started = start_recipe(options, progress)
    if flags.json:
        print_json(started.to_dict())
        return
    if started.read_as:
        say(f"{options.source.path}: read as {started.read_as}")
    if started.held_out:
        counts = ", ".join(f"{name} {rows:,}" for name, rows in started.held_out.items())
        say(f"splits: {started.folder} ({counts})")
    if started.constraint:
        say(f"outputs: {started.constraint} fits {started.fitting:.1%} of held-out outputs")
    if started.unfit:
        say(f"outputs: no schema fits 99% of them: {started.unfit}")
    if started.template is not None:
        say(_prompt(started))
    if started.verdict:
        show_verdict(started.verdict)
    say(f"task: {started.task}")
    left_out = " (without TASC-ft; its comments put it back)" if started.left_out else ""
    say(f"recipe: {started.recipe}{left_out}")
    show_estimates(started.estimates)
    say(f"Next: tasc run {started.recipe} --dry-run")


def _prompt(started: Started) -> str:
    """Return a line about the chosen prompt."""
    line = f"prompt: {json.dumps(started.template, ensure_ascii=False)}"
    chosen = next((one for one in started.prompts if one.template == started.template), None)
    if chosen is None:
        return f"{line} (not tried with a model)"
    nats = f"{chosen.nats:.2f} nats per output"
    if chosen.trained_nats is not None:
        nats += f", {chosen.trained_nats:.2f} after a short training"
    return f"{line} ({nats}; {len(started.prompts)} prompts tried)"
