"""``tasc run``: a whole recipe, each step done once."""

from pathlib import Path
from typing import Annotated, Any

import typer

from . import _options as o


def run(
    recipe: Annotated[str, typer.Argument(help="YAML file, or the name of one that comes along.")],
    data_dir: Annotated[
        str | None, typer.Option(help="Folder with local data sets.", show_default="$TASC_DATA")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split for analyze and bench, instead of the recipe's.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Use at most so many examples in each step, or fewer as the recipe has it."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed instead of the recipe's.")] = None,
    output: Annotated[
        str | None, typer.Option(help="Folder.", show_default="tasc-out/RECIPE")
    ] = None,
    force: o.Force = False,
    json: o.Json = False,
) -> None:
    """Run a recipe: analyze, augment, finetune, bench; finished steps are not run again."""
    from tasc.places import expanded
    from tasc.recipe.plan import Overrides, read
    from tasc.recipe.runner import find
    from tasc.recipe.runner import run as run_plan

    from ._console import bars, note, print_json

    path = find(str(expanded(Path(recipe))))
    plan = read(path, Overrides(o.place("data-dir", data_dir), seed, limit, split))
    folder = o.place("output", output) or Path("tasc-out") / path.stem
    results: dict[str, Any] = {}
    with bars() as progress:
        for name, config, done in run_plan(plan, folder, force=force, progress=progress):
            results[name] = done.result
            state = "up to date" if done.reused else "done"
            note(f"{name}: {state} ({done.output})")
            if not json:
                _show(config.command, done.result)
    if json:
        print_json(results)


def _show(command: str, result: dict[str, Any]) -> None:
    from . import analyze, augment, bench, finetune, index, vocab

    views = {
        "analyze": analyze.show,
        "augment": augment.show,
        "base": finetune.show,
        "finetune": finetune.show,
        "index": index.show,
        "vocab": vocab.show,
        "bench": bench.show,
        "tune": bench.show_tuning,
    }
    views[command](result)
