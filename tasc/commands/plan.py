"""Reading a recipe: a YAML file that names data and a chain of steps, checked whole."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
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
from tasc.options.command import CommandOptions, OptionsError, StepOptions
from tasc.options.fields import Positive, Seed, Shell, as_value_error, explain
from tasc.options.references import beside, expanded, join, parse_label
from tasc.options.task import Options, Task, as_task, find_files

_MOST_PROBLEMS = 20  # printed per file
_NAME = re.compile("[^.~/=-][^/=]*")  # of a step
_LONGEST_NAME = 100  # bytes of a step's, which names folders


class RecipeFile(Options):
    """The top level of a recipe file."""

    name: str
    description: str
    data: Task
    seed: Seed = 0
    steps: dict[str, dict[str, Any]] = Field(min_length=1)


class RunOptions(CommandOptions):
    """Options of ``tasc run``; those that change every step leave the recipe's values if None."""

    command = "run"

    recipe: Annotated[str, Shell(argument=True)] = Field(
        "recipe.yaml", description="YAML file, or the name of one that comes along."
    )
    dry_run: bool = Field(
        False, description="Check the whole recipe and show its steps; nothing is run or written."
    )
    data_dir: Annotated[Path | None, Shell(default="$TASC_DATA")] = Field(
        None, description="Folder with local data sets."
    )
    split: str | None = Field(
        None, description="Split for analyze, bench and load, instead of the recipe's."
    )
    limit: Positive | None = Field(
        None,
        description="Maximum number of examples in each step, except those that choose the number "
        "of new tokens; a lower limit in the recipe stays.",
    )
    seed: Seed | None = Field(None, description="Seed instead of the recipe's.")

    @field_validator("data_dir", mode="before")
    @classmethod
    def _folder(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        if not value.strip():
            raise ValueError("--data-dir is empty: name a folder, or leave --data-dir out")
        with as_value_error():
            return expanded(Path(value))


@dataclass(frozen=True)
class Plan:
    """A checked recipe: its name and its steps in order, references still by step name."""

    name: str
    steps: dict[str, StepOptions]


def read(path: Path, asked: RunOptions) -> Plan:
    """Read and check a whole recipe before any of it runs.

    Raises RecipeError with all that is wrong with the file in one line.
    """
    raw, twice = read_yaml(path)
    problems = [f"the key {name!r} is there twice: rename or remove one" for name in twice]
    if not isinstance(raw, dict):
        raise RecipeError(
            f"{path} does not hold the keys name, description, data and steps: write them"
        )
    recipe, listed = None, raw.get("steps")
    named = listed if isinstance(listed, dict) else {}
    try:
        _read_tasks(raw, named, path.parent)
        recipe = RecipeFile.model_validate(raw)
    except InputError as error:
        problems.append(str(error))
    except ValidationError as error:
        problems += explain(error.errors())
    steps = _Steps(recipe, asked, list(named), path.parent)
    for name, options in named.items():
        if isinstance(name, str) and isinstance(options, dict):
            problems += steps.add(name, options)
    if problems or recipe is None:
        raise RecipeError(f"{path}: {_in_one_line(problems)}: correct the recipe")
    return Plan(recipe.name, steps.checked)


def _in_one_line(problems: list[str]) -> str:
    told = list(dict.fromkeys(problems))
    if len(told) > _MOST_PROBLEMS:
        told[_MOST_PROBLEMS:] = [f"and {len(told) - _MOST_PROBLEMS} more"]
    return "; ".join(told)


def _read_tasks(raw: dict[str, Any], steps: dict[str, Any], folder: Path) -> None:
    """Replace task files by what they contain, and find the files of ``data``, in ``folder``."""
    for values, key in ((raw, "data"), *((step, "source") for step in steps.values())):
        if isinstance(values, dict) and (task := as_task(values.get(key), folder)):
            values[key] = task
    if isinstance(data := raw.get("data"), dict):
        find_files(data, folder)


@dataclass
class _Steps:
    """The steps of a recipe, of which each is checked against those before it."""

    recipe: RecipeFile | None  # None if the top level is wrong
    asked: RunOptions
    names: list[str]
    folder: Path  # of the recipe
    checked: dict[str, StepOptions] = field(default_factory=dict)

    def add(self, name: str, options: dict[str, Any]) -> list[str]:
        """Check one step and add it to ``checked``; return its problems."""
        try:
            config = self._options(name, options)
        except OptionsError as error:
            return [f"step {name}: {problem}" for problem in error.problems]
        except InputError as error:
            return [str(error)]
        problems = [
            f"step {name}: {field}: {problem}"
            for field, kind, other in config.references()
            if (problem := self._misplaced(name, other, kind))
        ]
        self.checked[name] = config
        has_data = self.recipe or "source" in options
        return problems + (list(_data_problems(config)) if has_data else [])

    def _options(self, name: str, options: dict[str, Any]) -> StepOptions:
        _check_name(name)
        command = options.get("command")
        if not isinstance(command, str) or command not in STEPS:
            raise InputError(
                f"step {name}: command must be one of {', '.join(STEPS)}, got {command!r:.60}"
            )
        if strange := [key for key in options if not isinstance(key, str)]:
            raise InputError(f"step {name}: {strange[0]!r}: keys should be strings: quote it")
        if alone := step_options(command).spec.by_hand & options.keys():
            raise InputError(
                f"step {name}: {', '.join(alone)} is no recipe's to give: run tasc {command} by "
                "hand"
            )
        if "address=" in str(options.get("executor", "")):
            raise InputError(
                f"step {name}: the address of a cluster is no recipe's to give: run tasc {command} "
                "by hand"
            )
        config = step_options(command)(**self._values(command, options))
        if config.data is None or config.data.beside_task:
            return config
        path = self._locate(config.data.path)
        return config.model_copy(update={"source": config.data.model_copy(update={"path": path})})

    def _values(self, command: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a step, completed by the recipe, changed by the command line."""
        # Where the top level is wrong the steps are checked all the same, with some data.
        data = self.recipe.data if self.recipe else Task(path=f"{BUILTIN}stdlib-tokens")
        seed, asked = self.recipe.seed if self.recipe else 0, self.asked
        changed: dict[str, Any] = {"seed": asked.seed}
        limit = None if _chooses(command, options) else asked.limit
        stated = options.get("limit")
        # One that is no number is left to be refused.
        if limit is not None and (stated is None or (type(stated) is int and stated > limit)):
            changed["limit"] = limit
        if command in ("analyze", "bench", "load"):
            changed["split"] = asked.split
        changed = {key: value for key, value in changed.items() if value is not None}
        references = step_options(command).spec.references
        own_values = {
            key: self._beside(value) if key in references else value
            for key, value in options.items()
            if key != "command"
        }
        return {"source": data, "seed": seed} | own_values | changed

    def _beside(self, value: object) -> object:
        """Return the references in ``value``; one that is no step may lie beside the recipe."""
        if isinstance(value, list):
            return [self._beside(text) for text in value]
        if not isinstance(value, str):
            return value
        label, path = parse_label(value)
        return value if path in (*self.names, *PACKAGED) else join(label, beside(path, self.folder))

    def _locate(self, path: str) -> str:
        """Return where data are: below --data-dir alone, or beside the recipe, or as written."""
        folder = self.asked.data_dir
        if folder is None or path.startswith(BUILTIN) or Path(path).is_absolute():
            return beside(path, self.folder)
        if not (folder / path).exists():
            raise InputError(f"no {path} below {folder}: give the folder with it as --data-dir")
        return str(folder / path)

    def _misplaced(self, name: str, other: str, kind: str) -> str | None:
        """Return why a reference cannot be used. The folder of a later step is an older run's."""
        at = self.names.index(name)
        if other in self.names[at:]:
            return f"{other} is no earlier step: reorder them"
        if other in self.checked:
            return _lacking(self.checked[other], other, kind)
        if other in self.names or other in PACKAGED or Path(other).exists():
            return None
        if is_local(other):
            return f"{other}: no such file or folder: name one that exists, or an earlier step"
        names = [*self.names[:at], *PACKAGED]
        alike = get_close_matches(other, names, 1, 0.7) if "/" not in other else []
        if not alike:
            return None
        return f"{other} is no earlier step: name {alike[0]}, or OWNER/NAME on the Hub"


def _chooses(command: str, options: dict[str, Any]) -> bool:
    """Return whether a step chooses the number of new tokens, for which it needs all examples."""
    return command == "analyze" or (command == "augment" and options.get("new_tokens") == "auto")


def _lacking(step: StepOptions, name: str, kind: str) -> str | None:
    """Return what is wrong with a reference to an earlier step that leaves no ``kind``."""
    if kind in step.makes:
        return None
    merge = " (with merge: true a model)" if step.command == "finetune" else ""
    has = f"{', '.join(sorted(step.makes)) or 'nothing to refer to'}{merge}"
    return f"{name} leaves no {kind} but {has}: name another step"


def _check_name(name: str) -> None:
    named = _NAME.fullmatch(name) and name.isprintable() and name.strip()
    if not named or len(name.encode()) > _LONGEST_NAME:
        raise InputError(
            "a step's name is that of its folder, printable, without / or =, and does not begin "
            f"with . ~ or -, got {name!r:.60}"
        )


def _data_problems(config: StepOptions) -> Iterator[str]:
    """Yield what is missing in a step's data: files, requested splits, columns."""
    for name in ("split", *config.spec.other_splits):
        split = getattr(config, name)
        if config.data and split is not None and config.must_exist(name):
            try:
                precheck(config.data.source(), split)
            except InputError as error:
                yield str(error)
