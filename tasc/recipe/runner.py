"""Recipes: a YAML file that names data and a chain of steps, each done once."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from tasc.data.source import BUILTIN
from tasc.errors import InputError, RecipeError
from tasc.places import join, labelled
from tasc.progress import Progress, silent
from tasc.recipe.configs import CONFIGS
from tasc.recipe.explain import explain
from tasc.recipe.step_config import Config, DataConfig, StepConfig
from tasc.recipe.steps import Outcome, carry_out


class RecipeConfig(Config):
    """The top level of a recipe file."""

    name: str
    description: str
    data: DataConfig
    seed: int = Field(0, ge=0)
    steps: dict[str, dict[str, Any]] = Field(min_length=1)


@dataclass(frozen=True)
class Overrides:
    """What the command line changes in every step of a recipe; None leaves the recipe's value.

    ``limit`` never makes a step larger than the recipe has it.
    """

    data_dir: Path | None = None
    seed: int | None = None
    limit: int | None = None
    split: str | None = None


@dataclass(frozen=True)
class Plan:
    """A checked recipe: its name and its steps in order, references still by step name."""

    name: str
    steps: dict[str, StepConfig]


def directory() -> Path:
    """Return the folder of the recipes that come along: the checkout's, else the installed copy."""
    checkout = Path(__file__).resolve().parents[2] / "recipes"
    return checkout if checkout.is_dir() else Path(str(files("tasc") / "recipes"))


def find(recipe: str) -> Path:
    """Return the file of a recipe given by path or by the name of one that comes along."""
    for path in (Path(recipe), directory() / recipe, directory() / f"{recipe}.yaml"):
        if path.is_file():
            return path
    names = ", ".join(sorted(p.stem for p in directory().glob("*.yaml")))
    raise InputError(f"no recipe {recipe!r}: give a YAML file, or one of {names}")


def read(path: Path, overrides: Overrides) -> Plan:
    """Read and check a whole recipe before any of it runs.

    Raises:
        RecipeError: with every wrong key of the file in one line.
    """
    try:
        text = path.read_text(encoding="utf-8")
        twice, raw = _repeated(yaml.compose(text, yaml.SafeLoader)), yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RecipeError(
            f"{path} is not a readable YAML file: {' '.join(str(error).split())}"
        ) from error
    if twice:
        raise RecipeError(f"{path}: the key {twice!r} is there twice: rename or remove one")
    if not isinstance(raw, dict):
        raise RecipeError(f"{path} must hold the keys name, description, data and steps")
    try:
        recipe = RecipeConfig(**raw)
    except ValidationError as error:
        raise RecipeError(explain(error.errors(), str(path))) from error
    steps: dict[str, StepConfig] = {}
    problems = []
    for name, options in recipe.steps.items():
        try:
            steps[name] = _step(name, options, recipe, overrides)
            _check_references(name, steps[name], recipe)
        except RecipeError as error:
            problems.append(str(error))
    if problems:
        raise RecipeError(f"{path}: " + "; ".join(problems))
    return Plan(recipe.name, steps)


def run(
    plan: Plan, output: Path, *, force: bool = False, progress: Progress = silent
) -> Iterator[tuple[str, StepConfig, Outcome]]:
    """Carry out the steps of ``plan`` into ``output``/step, yielding each as it is done.

    A step whose inputs and options have not changed since it was done is not done again, unless
    ``force``; a step that was killed goes on from its last checkpoint.
    """
    for name, config in plan.steps.items():
        ready = config.model_copy(update=_resolved(config, plan, output))
        folder = output / name
        outcome = carry_out(ready, folder, force=force, reuse=not force, progress=progress)
        yield name, ready, outcome


def _step(
    name: str, options: dict[str, Any], recipe: RecipeConfig, overrides: Overrides
) -> StepConfig:
    if name in {"", ".", ".."} or set(name) & set("/=\0"):
        raise RecipeError(f"a step's name is that of its folder, without / or =, got {name!r}")
    options = dict(options)
    command = options.pop("command", None)
    if not isinstance(command, str) or command not in CONFIGS:
        raise RecipeError(
            f"step {name}: command must be one of {', '.join(CONFIGS)}, got {command!r}"
        )
    limits = [n for n in (options.get("limit"), overrides.limit) if isinstance(n, int)]
    changed: dict[str, Any] = {"seed": overrides.seed, "limit": min(limits, default=None)}
    if command in ("analyze", "bench"):
        changed["split"] = overrides.split
    values: dict[str, Any] = {"source": recipe.data, "seed": recipe.seed} | options
    values |= {key: value for key, value in changed.items() if value is not None}
    try:
        config = CONFIGS[command](**values)
    except ValidationError as error:
        raise RecipeError(explain(error.errors(), f"step {name}")) from error
    path = _locate(config.source.path, overrides.data_dir)
    return config.model_copy(update={"source": config.source.model_copy(update={"path": path})})


def _resolved(config: StepConfig, plan: Plan, output: Path) -> dict[str, Any]:
    """Replace the names of steps by their folders in every field that refers to something."""

    def place(text: str | None) -> str | None:
        if text is None:
            return None
        label, name = labelled(text)
        return join(label, str(output / name)) if name in plan.steps else text

    values = {name: getattr(config, name) for name in config.references}
    return {
        name: tuple(place(t) for t in value) if isinstance(value, tuple) else place(value)
        for name, value in values.items()
    }


def _check_references(name: str, config: StepConfig, recipe: RecipeConfig) -> None:
    """Refuse a reference to this step or a later one: what an older run left there is stale."""
    names = list(recipe.steps)
    for field in config.references:
        value = getattr(config, field)
        for text in value if isinstance(value, tuple) else (value or "",):
            _, other = labelled(text)
            if other in names[names.index(name) :]:
                raise RecipeError(f"step {name}: {field}: {other} is no earlier step: reorder them")


def _repeated(node: yaml.Node | None) -> str | None:
    """A key that a mapping of a YAML document has twice: loading would keep the last one only."""
    waiting, seen = [node], set[int]()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
            continue
        seen.add(id(node))
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        names = [key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode)]
        waiting += [part for pair in pairs for part in pair] or node.value
        for name in names:
            if names.count(name) > 1:
                return str(name)
    return None


def _locate(path: str, data_dir: Path | None) -> str:
    """Find local data: as it stands, else below --data-dir or $TASC_DATA; a Hub id stays."""
    if path.startswith(BUILTIN) or Path(path).is_absolute():
        return path
    given = data_dir or os.environ.get("TASC_DATA")  # never both: no silent fallback
    if given and (Path(given) / path).exists():
        return str(Path(given) / path)
    if data_dir is not None:
        raise InputError(f"no {path} below {data_dir}: give the folder that holds it as --data-dir")
    return path
