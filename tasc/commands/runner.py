"""Recipes: where they lie, and how their steps are done, each once."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib.resources import files
from pathlib import Path
from typing import Any

from tasc.commands.plan import Plan
from tasc.commands.steps import Outcome, run_step
from tasc.errors import InputError
from tasc.files.artefact import check_output
from tasc.options.command import StepOptions
from tasc.options.references import join, parse_label
from tasc.progress import Progress


def directory() -> Path:
    """Return the folder of the recipes that come along: the checkout's, else the installed copy."""
    checkout = Path(__file__).resolve().parents[2] / "recipes"
    return checkout if checkout.is_dir() else Path(str(files("tasc") / "recipes"))


def find(recipe: str) -> Path:
    """Return the file of a recipe given by path or by the name of one that comes along."""
    for path in (Path(recipe), directory() / recipe, directory() / f"{recipe}.yaml"):
        if path.is_file():
            return path
    raise InputError(
        f"no recipe {recipe!r}: give a YAML file, one of {', '.join(names())}, or write one with "
        "tasc init"
    )


def names() -> list[str]:
    """Return the names of the recipes that come along, without those of the results pages."""
    paths = [*directory().glob("*.yaml"), *directory().glob("smollm2/*.yaml")]
    return sorted(str(path.relative_to(directory()).with_suffix("")) for path in paths)


def run_recipe(
    plan: Plan,
    output: Path,
    *,
    show_progress: Callable[[], AbstractContextManager[Progress]],
    force: bool = False,
    tell: Callable[[str], object] = str,
) -> Iterator[tuple[str, StepOptions, Outcome]]:
    """Carry out the steps of ``plan`` into ``output``/step, yielding each as it is done.

    A step whose inputs and options have not changed since it was done is not done again, unless
    ``force``; a step that was killed goes on from its last checkpoint.
    ``show_progress`` shows that of one step; ``tell`` as for ``run_step``.
    """
    for name in plan.steps:
        check_output(output / name, force=True)  # all of them, before the first one works
    for name, config in plan.steps.items():
        ready = config.model_copy(update=_resolved(config, plan, output))
        folder = output / name
        with show_progress() as progress:
            outcome = run_step(
                ready, folder, force=force, reuse=not force, progress=progress, tell=tell
            )
        yield name, ready, outcome


def _resolved(config: StepOptions, plan: Plan, output: Path) -> dict[str, Any]:
    """Replace the names of steps by their folders in every field that refers to something."""

    def folder(text: str | None) -> str | None:
        if text is None:
            return None
        label, name = parse_label(text)
        return join(label, str(output / name)) if name in plan.steps else text

    values = {name: getattr(config, name) for name in config.spec.references}
    return {
        name: tuple(folder(t) for t in value) if isinstance(value, tuple) else folder(value)
        for name, value in values.items()
    }
