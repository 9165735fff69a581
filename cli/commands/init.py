"""``tasc init``: write a recipe for your own data."""

from tasc.commands.starter.write import InitOptions, start_recipe

from .._console import print_json, say
from .._derive import RunFlags
from .._progress import show_progress


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
    say(f"task: {made.task}")
    say(f"recipe: {made.recipe}")
    say(f"Next: tasc run {made.recipe} --dry-run")
