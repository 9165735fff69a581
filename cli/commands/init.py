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
        made = start_recipe(options, progress)
    if flags.json:
        print_json(made.to_dict())
        return
    if made.read_as:
        say(f"{options.source.path}: read as {made.read_as}")
    if made.held_out:
        counts = ", ".join(f"{name} {rows:,}" for name, rows in made.held_out.items())
        say(f"splits: {made.folder} ({counts})")
    if made.constraint:
        say(f"outputs: {made.constraint} fits {made.fitting:.1%} of held-out outputs")
    if made.unfit:
        say(f"outputs: no schema fits 99% of them: {made.unfit}")
    if made.template is not None:
        say(_prompt(made))
    if made.verdict:
        show_verdict(made.verdict)
    say(f"task: {made.task}")
    say(f"recipe: {made.recipe}{' (without TASC-ft; its comments put it back)' * made.left_out}")
    show_estimates(made.estimates)
    say(f"Next: tasc run {made.recipe} --dry-run")


def _prompt(made: Started) -> str:
    """Return a line about the chosen prompt."""
    line = f"prompt: {json.dumps(made.template, ensure_ascii=False)}"
    chosen = next((one for one in made.prompts if one.template == made.template), None)
    if chosen is None:
        return f"{line} (not tried with a model)"
    nats = f"{chosen.nats:.2f} nats per output"
    if chosen.trained_nats is not None:
        nats += f", {chosen.trained_nats:.2f} after a short training"
    return f"{line} ({nats}; {len(made.prompts)} prompts tried)"
