"""Constraints on outputs: a JSON Schema, a grammar, a regular expression, or a list of strings."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from tasc.data.foreign import json_object, one_line, read_whole, text_of
from tasc.errors import InputError
from tasc.options.command import Kind, StepOptions
from tasc.options.fields import as_value_error
from tasc.options.task import CONSTRAINTS

_LARGEST = 1 << 20  # bytes of a file
# As json.dumps writes: the fixed text of an output is then fully determined.
_LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


@dataclass(frozen=True)
class Constraint:
    """A language of outputs: ``text`` is Lark in llguidance's dialect, or as ``kind`` says.

    ``name`` describes it in errors.
    """

    kind: Literal["schema", "lark", "regex"]
    text: str
    name: str

    @classmethod
    def of_schema(cls, schema: dict[str, Any], name: str = "schema") -> "Constraint":
        """Return the constraint of a JSON Schema.

        Outputs are laid out as by json.dumps, and keys come in the order of ``properties``. The
        schema's key ``x-guidance`` may set llguidance's ``whitespace_flexible``,
        ``item_separator`` and ``key_separator``.
        """
        given = schema.get("x-guidance", {})
        if not isinstance(given, dict):
            raise InputError(f"{name}: x-guidance is {given!r:.60}: give an object")
        try:
            return cls("schema", json.dumps(schema | {"x-guidance": _LAYOUT | given}), name)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{name} is not JSON: {one_line(error)}; fix it") from None

    @classmethod
    def of_strings(cls, strings: Sequence[str], name: str = "choices") -> "Constraint":
        if not strings or not all(strings):
            raise InputError(f"{name}: got {len(strings)} texts, or an empty one: give texts")
        written = (json.dumps(string, ensure_ascii=False) for string in strings)
        # One terminal: LLGuidance reads no rule with more than 2,000 alternatives.
        return cls("lark", "start: LABEL\nLABEL: " + " | ".join(written), name)

    @property
    def option(self) -> str:
        return "grammar" if self.kind == "lark" else self.kind


def read_constraint(
    schema: str | dict[str, Any] | None = None, grammar: str | None = None, regex: str | None = None
) -> Constraint | None:
    """Read the constraint that one of the options gives; None without any.

    ``schema`` is a file or its contents, ``grammar`` a file. Raises InputError if a file cannot be
    read, or several are given.
    """
    given = [n for n, v in zip(CONSTRAINTS, (schema, grammar, regex), strict=True) if v is not None]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} exclude each other: give one of them")
    if isinstance(schema, str):
        name = f"schema {schema}"
        return Constraint.of_schema(json_object(_read(schema, "schema"), name), name)
    if schema is not None:
        return Constraint.of_schema(schema)
    if grammar is not None:
        name = f"grammar {grammar}"
        return Constraint("lark", text_of(_read(grammar, "grammar"), name), name)
    if regex is not None:
        return Constraint("regex", regex, f"regex {regex!r:.60}")
    return None


def _read(path: str, option: str) -> bytes:
    file = Path(path)
    if not file.is_file():
        raise InputError(f"no {option} file {path!r}: check --{option}")
    return read_whole(file, _LARGEST)


REFERENCES: dict[str, Kind] = {"schema": "schema", "grammar": "grammar"}


class ConstrainedOptions(StepOptions):
    """Options of commands whose outputs may be constrained."""

    schema: str | None = Field(  # type: ignore[assignment]
        None, description="JSON Schema, a file, that every output satisfies."
    )
    grammar: str | None = Field(
        None, description="Grammar in Lark, a file, that every output satisfies."
    )
    regex: str | None = Field(None, description="Regular expression that every output matches.")

    @property
    def constraint(self) -> Constraint | None:
        """The constraint on outputs. Raises InputError if it cannot be read."""
        return read_constraint(self.schema, self.grammar, self.regex)

    @model_validator(mode="after")
    def _readable_constraint(self) -> Self:
        with as_value_error():
            _ = self.constraint
        return self
