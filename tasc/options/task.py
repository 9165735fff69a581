"""The data source of a command, and task files: YAML files with a task's data and defaults."""

import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from tasc.data.local import has_local_form
from tasc.data.source import BUILTIN, Source
from tasc.errors import InputError
from tasc.files.yaml_file import read_yaml
from tasc.options.fields import Unescaped, UserPath, as_value_error, explain
from tasc.options.references import expanded

_BROKEN = re.compile("[\0\ud800-\udfff]")  # not valid in a path, nor as UTF-8 in a file
_SPLIT_FIELDS = ("split", "corpus_split", "held_out", "validation")
CONSTRAINTS = ("schema", "grammar", "regex")  # options of which one may be given
_DEFAULTS = ("metrics", "delimiter", "max_new_tokens", "choices", *CONSTRAINTS)
_FILES = ("choices", "schema", "grammar")  # relative to the file that names them
# The key is schema, as users call the file; pydantic's method of that name is deprecated.
warnings.filterwarnings("ignore", 'Field name "schema"', UserWarning)


class Options(BaseModel):
    """Base of frozen options. An unknown key is an error, and every number has bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _sound(cls, value: object, info: ValidationInfo) -> object:
        """Reject booleans for numbers (they would be 1 and 0) and text that is not valid."""
        parts = value if isinstance(value, list | tuple) else (value,)
        field = cls.model_fields[info.field_name or ""]
        if field.annotation is not bool and any(isinstance(part, bool) for part in parts):
            raise ValueError(f"{info.field_name}: got true or false (on, yes, no): give a value")
        for text in parts:
            if isinstance(text, str) and _BROKEN.search(text):
                raise ValueError(f"{info.field_name}: {text!r:.60} contains an invalid character")
        return value


class Data(Options):
    """Where examples come from: a built-in task, a local file or folder, or a Hub data set."""

    _written: dict[str, Any] | None = PrivateAttr(None)
    _beside: bool = PrivateAttr(default=False)

    path: UserPath = Field(
        description="builtin:NAME (stdlib-tokens, stdlib-docs), a JSONL/JSON/CSV/TSV/Parquet file "
        "(also .gz), a folder with splits, a Hub id, or a task file (.yaml)."
    )
    input_column: str = Field(
        Source.input_column,
        min_length=1,
        description="Column of the inputs; lists are read as words. If neither column is given, "
        "chats and instructions are recognised by their columns.",
    )
    output_column: str = Field(
        Source.output_column,
        min_length=1,
        description="Column of the outputs; lists are read as words.",
    )
    template: Unescaped = Field(
        Source.template,
        description="Prompt template: {input}, other columns by name, {input:.200} for the first "
        "200 characters. Without one, the tokenizer's chat template writes the prompts of chats.",
    )
    config: str | None = Field(Source.config, description="Configuration of a Hub data set.")
    separator: Unescaped = Field(
        Source.separator,
        description="Separator of the cells of CSV files: comma, semicolon, tab, bar, or another "
        "character; auto takes the one of these four that gives a table with the columns.",
    )

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, value: object) -> object:
        return {"path": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _readable(self) -> Self:
        with as_value_error():
            self.source()
        return self

    @property
    def written(self) -> dict[str, Any]:
        """The fields as the user wrote them: a task file, and values that replace its own."""
        if self._written is not None:
            return self._written
        return {name: getattr(self, name) for name in self.model_fields_set}

    @property
    def beside_task(self) -> bool:
        """Whether ``path`` was found in the folder of a task file."""
        return self._beside

    def source(self) -> Source:
        """Return the same data as the library describes it, below $TASC_DATA if only there."""
        fields = set(Data.model_fields)
        named = frozenset(self.model_fields_set & fields)
        located = {"path": _in_data_dir(self.path, os.environ.get("TASC_DATA"))}
        return Source(**self.model_dump(include=fields) | located, named=named)


class Task(Data):
    """A task file, or the ``data`` of a recipe: data, and defaults for the commands that use it."""

    splits: dict[Literal["train", "validation", "test"], str] = Field(
        {}, description="The data's own names of the splits train, validation and test."
    )
    metrics: tuple[str, ...] | None = Field(None, description="Quality metrics of the task.")
    delimiter: str | None = Field(None, description="Separator between the items of an output.")
    max_new_tokens: int | None = Field(None, description="Limit of an output's length, in tokens.")
    schema: str | None = Field(  # type: ignore[assignment]
        None, description="File with the JSON Schema of the outputs."
    )
    grammar: str | None = Field(None, description="File with the Lark grammar of the outputs.")
    regex: str | None = Field(None, description="Regular expression that the outputs match.")
    choices: str | None = Field(
        None,
        description="Labels of the task: a file with one per line or a JSON list, or a column.",
    )

    def data(self) -> Data:
        named = self.model_dump(include=self.model_fields_set & Data.model_fields.keys())
        data = Data(**named)
        data._written, data._beside = self._written or named, self._beside
        return data

    def defaults(self, fields: Mapping[str, FieldInfo]) -> dict[str, Any]:
        """Return the values that the task defines for options with these ``fields``."""
        values = {name: getattr(self, name) for name in _DEFAULTS if name in fields}
        if "epochs" in fields:  # training does not depend on it
            values.pop("max_new_tokens", None)
        for name in _SPLIT_FIELDS:
            if name in fields and fields[name].default in self.splits:
                values[name] = self.splits[fields[name].default]
        return {name: value for name, value in values.items() if value is not None}


def _in_data_dir(path: str, folder: str | None) -> str:
    """Return where ``path`` is: below ``folder`` if it is relative and only there."""
    below = Path(folder or "", path)
    only = folder and not path.startswith(("~", ".")) and not Path(path).exists() and below.exists()
    return str(below) if only else path


def is_task_file(path: str) -> bool:
    """Return whether a data source is a task file, by its ending."""
    return path.lower().endswith((".yaml", ".yml"))


def as_task(source: object, folder: Path | None = None) -> Task | None:
    """Return the task of a data source given as an option; None if it is not a task file.

    A relative path is relative to ``folder``. Raises InputError if the file cannot be read.
    """
    if isinstance(source, Task):
        return source
    if isinstance(source, Data):
        source = {name: getattr(source, name) for name in source.model_fields_set}
    values = source if isinstance(source, dict) else {"path": source}
    path = values.get("path")
    if not isinstance(path, str) or not is_task_file(path):
        return None
    typed = {name: value for name, value in values.items() if name != "path"}
    return read_task((folder or Path()) / expanded(Path(path)), typed)


def read_task(path: Path, typed: Mapping[str, Any]) -> Task:
    """Read a task file; the values in ``typed`` replace its own.

    Raises InputError if the file cannot be read, has unknown keys, or a value is wrong.
    """
    raw = _read_keys(path)
    data, beside = _find(raw["path"], path.parent)
    find_files(raw, path.parent)
    try:
        task = Task(**{**raw, **typed, "path": data})
    except ValidationError as error:
        raise InputError(f"{path}: {'; '.join(explain(error.errors()))}: fix the file") from None
    task._written, task._beside = {"path": str(path), **typed}, beside
    return task


def find_files(raw: dict[str, Any], folder: Path) -> None:
    """Find the files of a task's labels and constraints in ``folder``, where they are there."""
    for name in _FILES:
        if isinstance(raw.get(name), str) and (folder / raw[name]).is_file():
            raw[name] = str(folder / raw[name])


def _read_keys(path: Path) -> dict[str, Any]:
    """Read the keys of a task file, among them the path of its data."""
    if not path.is_file():
        raise InputError(f"{path}: no such task file: check the path")
    raw, twice = read_yaml(path)
    if twice:
        raise InputError(f"{path}: the key {twice[0]!r} appears twice: remove one")
    if not isinstance(raw, dict) or not isinstance(raw.get("path"), str) or not raw["path"]:
        raise InputError(f"{path} has no data: add the key path, such as path: train.jsonl")
    keys = ", ".join(Task.model_fields)
    if unknown := [str(key) for key in raw if key not in Task.model_fields]:
        raise InputError(f"{path}: unknown key {unknown[0]!r:.60}: use one of {keys}")
    if is_task_file(raw["path"]):
        raise InputError(f"{path}: path {raw['path']!r:.60} is another task file: give the data")
    return raw


def _find(data: str, folder: Path) -> tuple[str, bool]:
    """Return a task file's path of data, and whether it is relative to the file's folder."""
    if data.startswith((BUILTIN, "~", "/")):
        return data, False
    beside = folder / data
    if beside.exists() or has_local_form(data):
        return str(beside), True
    return data, False
