"""``tasc init``: a recipe for one's own data."""

from typing import TYPE_CHECKING

import typer

from ..._console import print_json, say
from ..._derive import RunFlags, class_at
from ..._derive import register as register_derived

if TYPE_CHECKING:
    from tasc.commands.starter.options import InitOptions


def register(app: typer.Typer) -> None:
    """Make it a command of ``app``."""
    told = "Write a recipe for your own data, with comments; splits, too, where there is only one."
    kind = class_at("tasc.commands.starter.options:InitOptions")
    register_derived(app, "init", told, kind, _run)


def _run(options: "InitOptions", flags: RunFlags) -> None:
    from tasc.commands.starter.write import start_recipe

    made = start_recipe(options)
    if flags.json:
        print_json(made.to_dict())
        return
    if made.read_as:
        say(f"{options.source.path}: read as {made.read_as}")
    if made.held_out:
        counts = ", ".join(f"{name} {rows:,}" for name, rows in made.held_out.items())
        say(f"splits: {made.folder} ({counts})")
    say(f"recipe: {made.recipe}")
    say(f"Next: tasc run {made.recipe} --dry-run")
