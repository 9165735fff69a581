"""Reading a recipe: a YAML file that names data and a chain of steps, checked whole."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from tasc.commands.registry import STEPS, step_options
from tasc.data.corpus import precheck
from tasc.data.local import is_local
from tasc.data.source import BUILTIN
from tasc.errors import InputError, RecipeError
from tasc.files.packaged import PACKAGED
from tasc.files.yaml_file import read_yaml
from tasc.options.command import (
    LARGEST_SEED,
    MOST_EXAMPLES,
    CommandOptions,
    OptionsError,
    StepOptions,
)
from tasc.options.explain import explain
from tasc.options.fields import Shell, as_value_error
from tasc.options.references import expanded, parse_label
from tasc.options.task import Options, Task, as_task

_MOST_PROBLEMS = 20  # printed per file
_NAME = re.compile("[^.~/=-][^/=]*")  # of a step
_LONGEST_NAME = 100  # bytes of a step's, which names folders


class RecipeFile(Options):
    """The top level of a recipe file."""

    name: str
    description: str
    data: Task
    seed: int = Field(0, ge=0, le=LARGEST_SEED)
    steps: dict[str, dict[str, Any]] = Field(min_length=1)


class Overrides(CommandOptions):
    """What the command line changes in every step of a recipe; None leaves the recipe's value.

    ``limit`` never makes a step larger than the recipe has it.
    """

    command = "run"

    data_dir: Annotated[Path | None, Shell(default="$TASC_DATA")] = Field(
        None, description="Folder with local data sets."
    )
    split: str | None = Field(
        None, description="Split for analyze, bench and load, instead of the recipe's."
    )
    limit: int | None = Field(
        None,
        ge=1,
        le=MOST_EXAMPLES,
        description="Maximum number of examples in each step; a lower limit in the recipe stays.",
    )
    seed: int | None = Field(
        None, ge=0, le=LARGEST_SEED, description="Seed instead of the recipe's."
    )

    @field_validator("data_dir", mode="before")
    @classmethod
    def _folder(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        if not value.strip():
            raise ValueError("--data-dir is empty: name a folder, or leave --data-dir out")
        with as_value_error():
            return expanded(Path(value))


class RunOptions(Overrides):
    """Options of ``tasc run``."""

    recipe: Annotated[str, Shell(argument=True)] = Field(
        "recipe.yaml", description="YAML file, or the name of one that comes along."
    )
    dry_run: bool = Field(
        False, description="Check the whole recipe and show its steps; nothing is run or written."
    )


@dataclass(frozen=True)
class Plan:
    """A checked recipe: its name and its steps in order, references still by step name."""

    name: str
    steps: dict[str, StepOptions]


def read(path: Path, overrides: Overrides) -> Plan:
    """Read and check a whole recipe before any of it runs.

    Raises RecipeError with all that is wrong with the file in one line.
    """
    raw, twice = read_yaml(path)
    problems = [f"the key {name!r} is there twice: rename or remove one" for name in twice]
    if not isinstance(raw, dict):
        raise RecipeError(
            f"{path} does not hold the keys name, description, data and steps: write them"
        )
    recipe = None
    try:
        _read_tasks(raw, path.parent)
        recipe = RecipeFile.model_validate(raw)
    except InputError as error:
        problems.append(str(error))
    except ValidationError as error:
        problems += explain(error.errors())
    steps: dict[str, StepOptions] = {}
    listed = raw.get("steps")
    named = {} if not isinstance(listed, dict) else listed
    for name, options in named.items():
        if isinstance(name, str) and isinstance(options, dict):
            problems += _add(name, options, recipe, overrides, list(named), steps)
    if problems or recipe is None:
        told = list(dict.fromkeys(problems))
        if len(told) > _MOST_PROBLEMS:
            told[_MOST_PROBLEMS:] = [f"and {len(told) - _MOST_PROBLEMS} more"]
        raise RecipeError(f"{path}: {'; '.join(told)}: correct the recipe")
    return Plan(recipe.name, steps)


def _read_tasks(raw: dict[str, Any], folder: Path) -> None:
    """Replace task files by what they contain; their paths are relative to the recipe's folder."""
    steps = raw.get("steps")
    listed = list(steps.values()) if isinstance(steps, dict) else []
    for values, key in ((raw, "data"), *((step, "source") for step in listed)):
        if isinstance(values, dict) and (task := as_task(values.get(key), folder)):
            values[key] = task


def _add(
    name: str,
    options: dict[str, Any],
    recipe: RecipeFile | None,
    overrides: Overrides,
    names: list[str],
    steps: dict[str, StepOptions],
) -> list[str]:
    """Check one step and add it to ``steps``; return its problems."""
    try:
        config = _step(name, options, recipe, overrides)
    except OptionsError as error:
        return [f"step {name}: {problem}" for problem in error.problems]
    except InputError as error:
        return [str(error)]
    problems = [
        f"step {name}: {problem}"
        for field, kind in config.spec.references.items()
        for other in (parse_label(text)[1] for text in config.named(field))
        if (problem := _misplaced(f"{field}: {other}", other, kind, names, name, steps))
    ]
    steps[name] = config
    return problems + (list(_data_problems(config)) if recipe or "source" in options else [])


def _step(
    name: str, options: dict[str, Any], recipe: RecipeFile | None, overrides: Overrides
) -> StepOptions:
    _check_name(name)
    options = dict(options)
    command = options.pop("command", None)
    if not isinstance(command, str) or command not in STEPS:
        raise InputError(
            f"step {name}: command must be one of {', '.join(STEPS)}, got {command!r:.60}"
        )
    if strange := [key for key in options if not isinstance(key, str)]:
        raise InputError(f"step {name}: {strange[0]!r}: keys should be strings: quote it")
    changed: dict[str, Any] = {"seed": overrides.seed}
    own, limit = options.get("limit"), overrides.limit
    # One that is no number is left to be refused.
    if limit is not None and (own is None or (type(own) is int and own > limit)):
        changed["limit"] = limit
    if alone := step_options(command).spec.by_hand & options.keys():
        raise InputError(
            f"step {name}: {', '.join(alone)} is no recipe's to give: run tasc {command} by hand"
        )
    if command in ("analyze", "bench", "load"):
        changed["split"] = overrides.split
    # Where the top level is wrong the steps are checked all the same, with some data.
    data = recipe.data if recipe else Task(path=f"{BUILTIN}stdlib-tokens")
    values: dict[str, Any] = {"source": data, "seed": recipe.seed if recipe else 0} | options
    values |= {key: value for key, value in changed.items() if value is not None}
    config = step_options(command)(**values)
    if config.data is None or config.data.beside_task:
        return config
    path = _locate(config.data.path, overrides.data_dir)
    return config.model_copy(update={"source": config.data.model_copy(update={"path": path})})


def _check_name(name: str) -> None:
    named = _NAME.fullmatch(name) and name.isprintable() and name.strip()
    if not named or len(name.encode()) > _LONGEST_NAME:
        raise InputError(
            "a step's name is that of its folder, printable, without / or =, and does not begin "
            f"with . ~ or -, got {name!r:.60}"
        )


def _misplaced(
    what: str, other: str, kind: str, names: list[str], name: str, steps: Mapping[str, StepOptions]
) -> str | None:
    """Return why a reference cannot be used; output of a later step is from an older run."""
    if other in names[names.index(name) :]:
        return f"{what} is no earlier step: reorder them"
    if other in steps:
        made = steps[other].makes
        merge = " (with merge: true a model)" if steps[other].command == "finetune" else ""
        has = f"{', '.join(sorted(made)) or 'nothing to refer to'}{merge}"
        return None if kind in made else f"{what} leaves no {kind} but {has}: name another step"
    if other in names or other in PACKAGED or Path(other).exists():
        return None
    if is_local(other):
        return f"{what}: no such file or folder: name one that exists, or an earlier step"
    known = [*names[: names.index(name)], *PACKAGED]
    alike = get_close_matches(other, known, 1, 0.7) if "/" not in other else []
    return (
        f"{what} is no earlier step: name {alike[0]}, or OWNER/NAME on the Hub" if alike else None
    )


def _data_problems(config: StepOptions) -> Iterator[str]:
    """Yield what is missing in a step's data: files, requested splits, columns."""
    for field in ("split", *config.spec.other_splits):
        split = getattr(config, field)
        if config.data and split is not None and config.must_exist(field):
            try:
                precheck(config.data.source(), split)
            except InputError as error:
                yield str(error)


def _locate(path: str, data_dir: Path | None) -> str:
    """Return where data are, with --data-dir below it alone."""
    if data_dir is None or path.startswith(BUILTIN) or Path(path).is_absolute():
        return path
    if not (data_dir / path).exists():
        raise InputError(f"no {path} below {data_dir}: give the folder that holds it as --data-dir")
    return str(data_dir / path)
