"""What the options of all commands share.

A command has one frozen class, beside the library call that takes it: an option is one field of it,
with its default, its bounds and its help. The command line and recipes are read from these classes.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from tasc.errors import InputError
from tasc.options.bounds import Bounded, Bounds
from tasc.options.explain import explain
from tasc.options.fields import Shell, Split, as_value_error
from tasc.options.references import expand_user
from tasc.options.task import Data, Options, as_task

MOST_EXAMPLES = 10**9
LARGEST_SEED = 2**32 - 1  # the generators of all libraries take it
MOST_THREADS = 1024
Kind = Literal[
    "model",
    "tokenizer",
    "new tokens",
    "index",
    "draft head",
    "token counts",
    "training report",
    "results",
    "run",
]


class OptionsError(InputError):
    """Options that cannot be used: each of ``problems`` names one and says what was seen."""

    def __init__(self, command: str, problems: list[str]) -> None:
        """``command`` is the one whose options these are."""
        super().__init__(f"tasc {command}: {'; '.join(problems)}; see tasc {command} --help")
        self.problems = problems


class CommandOptions(Options):
    """The options of a command; in Python and on the command line wrong ones are an InputError."""

    command: ClassVar[str]
    # Of --output, --force, --json, --resume and --push-to-hub those that make sense: three are
    # about a folder that is left, --resume about a checkpoint that a killed run leaves, the last
    # about a model. None is a recipe's to say, which may be a stranger's.
    flags: ClassVar[tuple[str, ...]] = ("output", "force", "json")

    if not TYPE_CHECKING:  # mypy reads the fields instead

        def __init__(self, **values: object) -> None:
            """Check the options. Raises OptionsError with all that is wrong with them."""
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise OptionsError(self.command, explain(error.errors())) from None

    @model_validator(mode="before")
    @classmethod
    def _read_task(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        """Add the data and defaults of a task file; values given explicitly win."""
        if not isinstance(values, dict):
            return values
        with as_value_error():
            task = as_task(values.get("source"))
        if task is None:
            return values
        return task.defaults(cls.model_fields) | values | {"source": task.data()}

    @model_validator(mode="before")
    @classmethod
    def _rename_old_keys(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        """Accept the older name of a field."""
        if not isinstance(values, dict):
            return values
        renamed = dict(values)
        for field, info in cls.model_fields.items():
            shells = [held for held in info.metadata if isinstance(held, Shell)]
            for old in (alias.replace("-", "_") for shell in shells for alias in shell.aliases):
                if old in renamed and field in renamed:
                    raise ValueError(f"{old} is an older name of {field}: give {field} only")
                if old in renamed:
                    renamed[field] = renamed.pop(old)
        return renamed


class StepOptions(CommandOptions):
    """What every command takes that may be a step of a recipe."""

    result_file: ClassVar[str]
    # Fields that name a folder, file, or Hub id, and what must lie there. They may name an earlier
    # step of a recipe that makes such a thing.
    references: ClassVar[Mapping[str, Kind]] = {}
    # The field that names the tokenizer whose chat template writes prompts; empty where outputs
    # alone are counted.
    chat_template_of: ClassVar[str] = ""
    # Fields that say how to work and do not change the result.
    incidental: ClassVar[set[str]] = set()
    # Fields that a person alone may give, and no recipe, which may be a stranger's.
    by_hand: ClassVar[frozenset[str]] = frozenset()
    # What a later step may refer to in the artefact.
    products: ClassVar[frozenset[Kind]] = frozenset()
    # Fields that name another split, and at most how many of its examples are read.
    other_splits: ClassVar[Mapping[str, int | None]] = {}
    # Those without which there is nothing to do; others are left out where the source has none.
    needed_splits: ClassVar[frozenset[str]] = frozenset({"split"})
    # Fields of ``other_splits`` that may name the main split; others are then left out, too.
    same_splits: ClassVar[frozenset[str]] = frozenset()

    source: Data
    split: Split = "train"
    limit: int | None = Field(
        None, ge=1, le=MOST_EXAMPLES, description="Maximum number of examples, drawn with the seed."
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Seed of every random choice.")

    @property
    def part(self) -> tuple[int, int] | None:
        """Which of how many parts of the split alone is read; None for all of it."""
        return None

    @property
    def data(self) -> Data | None:
        """What texts are read from; None where a command that can do without was given none."""
        return self.source

    @property
    def makes(self) -> frozenset[Kind]:
        """What a later step may refer to in the artefact that these very options make."""
        return self.products

    # Whether several processes of a launcher work on it together; the first leaves the artefact.
    shared: ClassVar[bool] = False
    # Whether the split is read in passing, for it may be larger than memory.
    streamed: ClassVar[bool] = False

    def named(self, field: str) -> tuple[str, ...]:
        """Return what a field that refers to something names: several, one or nothing."""
        value = getattr(self, field)
        return value if isinstance(value, tuple) else () if value is None else (value,)

    def must_exist(self, field: str) -> bool:
        """Say whether the split that ``field`` names must be there: needed, or asked for."""
        return field in self.needed_splits or field in self.model_fields_set

    def but(self, **changes: Any) -> Self:  # noqa: ANN401
        """Return the same options with ``changes``, checked anew."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**given | changes)

    @field_validator("*")
    @classmethod
    def _expand_paths(cls, value: object, info: ValidationInfo) -> object:
        """Expand ~ in every reference: no shell expands it after ``LABEL=``."""
        if value is None or info.field_name not in cls.references:
            return value
        named = value if isinstance(value, tuple) else (value,)
        if not all(text.strip() for text in named):
            raise ValueError(f"{info.field_name} is empty: name a file, a folder or a Hub id")
        with as_value_error():
            return tuple(map(expand_user, named)) if named is value else expand_user(named[0])


class ModelOptions(StepOptions):
    """What every command takes that runs a model."""

    threads: int | None = Field(
        None,
        ge=1,
        le=MOST_THREADS,
        description="CPU threads of torch; small models are fastest on one.",
    )


def like(kind: type[Bounded], name: str) -> Any:  # noqa: ANN401
    """Declare a field as a ``Bounded`` dataclass has it: default, bounds and description."""
    (found,) = (field for field in fields(kind) if field.name == name)
    bounds: Bounds | None = found.metadata.get("bounds")
    limits: dict[str, Any] = {}
    if bounds:
        limits = {"ge": bounds.low, "lt" if bounds.below else "le": bounds.high}
    return Field(found.default, description=found.metadata["description"], **limits)
