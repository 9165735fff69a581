"""Base classes of the options of all commands.

Each command has one frozen class, defined next to the library call that takes it. An option is a
field with its default, bounds and help. The command line and recipes are derived from the classes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from tasc.errors import InputError
from tasc.options.fields import Positive, Seed, Shell, Split, as_value_error, explain
from tasc.options.references import expand_user, parse_label
from tasc.options.task import CONSTRAINTS, Data, Options, as_task

MOST_THREADS = 1024
Kind = Literal[
    "model",
    "tokenizer",
    "new tokens",
    "index",
    "draft head",
    "token counts",
    "schema",
    "grammar",
    "labels",
    "training report",
    "results",
]


THREADS: Any = Field(
    None,
    ge=1,
    le=MOST_THREADS,
    description="CPU threads for torch; small models are fastest with one.",
)


class OptionsError(InputError):
    """Invalid options. Each of ``problems`` gives one option and the value found."""

    def __init__(self, command: str, problems: list[str]) -> None:
        super().__init__(f"tasc {command}: {'; '.join(problems)}; see tasc {command} --help")
        self.problems = problems


class CommandOptions(Options):
    """Options of a command. Invalid ones raise an InputError, in Python and on the command line."""

    command: ClassVar[str]
    # Those of --output, --force, --json and --resume that the command has. They are not fields,
    # because no recipe, which may be a stranger's, may set them.
    flags: ClassVar[tuple[str, ...]] = ("output", "force", "json")

    if not TYPE_CHECKING:  # mypy reads the fields instead

        def __init__(self, **values: object) -> None:
            """Check the options. Raises OptionsError with all problems found."""
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise OptionsError(self.command, explain(error.errors())) from None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: Any) -> Any:  # noqa: ANN401 - not yet validated
        """Accept older names of fields, and add what a task file has; explicit values win."""
        if not isinstance(values, dict):
            return values
        renamed = cls._renamed(values)
        with as_value_error():
            task = as_task(renamed.get("source"))
        if task is None:
            return cls._with_defaults(renamed)
        defaults = task.defaults(cls.model_fields)
        if any(name in renamed for name in CONSTRAINTS):  # another constraint than the task's
            defaults = {n: value for n, value in defaults.items() if n not in CONSTRAINTS}
        return cls._with_defaults(defaults | renamed | {"source": task.data()})

    @classmethod
    def _with_defaults(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Add default values that depend on other options."""
        return values

    @classmethod
    def _renamed(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Replace older names of fields. Raises ValueError if both names are given."""
        renamed = dict(values)
        for name, info in cls.model_fields.items():
            shells = [entry for entry in info.metadata if isinstance(entry, Shell)]
            for old in (alias.replace("-", "_") for shell in shells for alias in shell.aliases):
                if old in renamed and name in renamed:
                    raise ValueError(f"{old} is an older name of {name}: give {name} only")
                if old in renamed:
                    renamed[name] = renamed.pop(old)
        return renamed


class OtherSplit(NamedTuple):
    """A split that a command reads besides its main one."""

    most: int | None = None  # read at most this many examples
    required: bool = False  # otherwise it is skipped if the data do not have it
    may_be_main: bool = False  # otherwise it is skipped if it is the main split


@dataclass(frozen=True)
class StepSpec:
    """How a command runs as a step, besides its options."""

    result_file: str = ""  # name of the report in the artefact
    # Fields that refer to a folder, a file or a Hub id, and the kind of thing that must be there.
    # In a recipe they may also refer to an earlier step.
    references: Mapping[str, Kind] = field(default_factory=dict)
    makes: frozenset[Kind] = frozenset()  # what a later step may use of the artefact
    chat_template_of: str = ""  # field of the tokenizer whose chat template writes the prompts
    other_splits: Mapping[str, OtherSplit] = field(default_factory=dict)  # by field
    incidental: frozenset[str] = frozenset()  # fields that do not change the result
    by_hand: frozenset[str] = frozenset()  # fields that a recipe, perhaps a stranger's, may not set
    streamed: bool = False  # whether the main split is read as a stream, without loading all of it
    distributed: bool = False  # whether the processes of a launcher work on one artefact together


class StepOptions(CommandOptions):
    """Options of every command that can be a step of a recipe."""

    spec: ClassVar[StepSpec]

    source: Data
    split: Split = "train"
    limit: Positive | None = Field(
        None, description="Maximum number of examples, drawn with the seed."
    )
    seed: Seed = Field(0, description="Seed of every random choice.")

    @property
    def data(self) -> Data | None:
        """The data source; None if the command can work without one and none was given."""
        return self.source

    @property
    def makes(self) -> frozenset[Kind]:
        """What a later step may use of the artefact that these options make."""
        return self.spec.makes

    def named(self, field: str) -> tuple[str, ...]:
        value = getattr(self, field)
        return value if isinstance(value, tuple) else () if value is None else (value,)

    def references(self) -> Iterator[tuple[str, Kind, str]]:
        """Yield each reference: its field, the kind needed there, and the path without a label."""
        for name, kind in self.spec.references.items():
            yield from ((name, kind, parse_label(text)[1]) for text in self.named(name))

    def must_exist(self, field: str) -> bool:
        """Return whether the split of ``field`` must exist: it is required or given explicitly."""
        other = self.spec.other_splits.get(field)
        return other is None or other.required or field in self.model_fields_set

    def but(self, **changes: Any) -> Self:  # noqa: ANN401
        """Return a copy with ``changes``; all checks run again."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**values | changes)

    @field_validator("*")
    @classmethod
    def _expand_paths(cls, value: object, info: ValidationInfo) -> object:
        """Expand ~ in every reference, because shells do not expand it after ``LABEL=``."""
        if value is None or info.field_name not in cls.spec.references:
            return value
        named = value if isinstance(value, tuple) else (value,)
        if not all(text.strip() for text in named):
            raise ValueError(f"{info.field_name} is empty: give a file, a folder or a Hub id")
        with as_value_error():
            return tuple(map(expand_user, named)) if named is value else expand_user(named[0])


class ModelOptions(StepOptions):
    """Options of every command that runs a model."""

    threads: int | None = THREADS
