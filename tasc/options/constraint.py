"""Constraints on outputs: a JSON Schema, a grammar, a regular expression, or a list of strings."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from tasc.data.foreign import json_object, one_line, read_whole, text_of
from tasc.errors import InputError
from tasc.options.command import Kind, StepOptions
from tasc.options.fields import as_value_error
from tasc.options.task import CONSTRAINTS
from tasc.schema.grammar import UnwritableError, grammar_of
from tasc.schema.layout import KEY, Layout, layout_in, layout_of

_LARGEST = 1 << 20  # bytes of a file
_GUIDANCE = "x-guidance"  # llguidance's options, in a schema
_SEPARATORS = ("item_separator", "key_separator")
_WHITESPACE = ("whitespace_flexible", "whitespace_pattern")


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

        Outputs are written as by json.dumps, and keys come in the order of ``properties``. The
        schema's key ``x-json-dumps`` may state the arguments ``separators``, ``indent`` and
        ``ensure_ascii``, and ``x-guidance`` llguidance's own options.
        """
        guidance = schema.get(_GUIDANCE, {})
        if not isinstance(guidance, dict):
            raise InputError(f"{name}: x-guidance is {guidance!r:.60}: give an object")
        try:
            text = json.dumps(schema)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{name} is not JSON: {one_line(error)}; fix it") from None
        layout_of(schema, name)
        return cls("schema", text, name)

    @property
    def layout(self) -> Layout | None:
        """How outputs are written, if a schema states it; None if it is free, or left to others."""
        if self.kind != "schema":
            return None
        schema = json.loads(self.text)
        stated = layout_of(schema, self.name)
        options = schema.get(_GUIDANCE, {})
        if stated is None and any(name in options for name in _SEPARATORS):
            return Layout(
                str(options.get("item_separator", ", ")), str(options.get("key_separator", ": "))
            )
        return stated

    def written_as(self, outputs: Iterable[str]) -> "Constraint":
        """Return the constraint in the layout of most of ``outputs``.

        It does not change if the schema states a layout, or if it is no schema.
        """
        if self.kind != "schema" or self.layout is not None:
            return self
        schema = json.loads(self.text)
        if any(name in schema.get(_GUIDANCE, {}) for name in _WHITESPACE):
            return self
        layout = layout_in(outputs)
        if layout is None or not layout.arguments:
            return self
        return replace(self, text=json.dumps(schema | {KEY: layout.arguments}))

    @property
    def lark(self) -> str:
        """The grammar of a schema in llguidance's Lark. Raises InputError if there is none."""
        schema = json.loads(self.text)
        options = schema.get(_GUIDANCE, {})
        plain = {k: v for k, v in schema.items() if k not in (_GUIDANCE, KEY)}
        if any(name in options for name in _WHITESPACE):
            return f"start: %json {json.dumps(plain | {_GUIDANCE: options})}"
        others = {k: v for k, v in options.items() if k not in _SEPARATORS}
        try:
            return grammar_of(plain, self.layout or Layout(), others)
        except UnwritableError as error:
            raise InputError(
                f"{self.name} cannot be used with an indent, because of {error}: remove that from "
                "the schema, or write the outputs without indent"
            ) from None

    @classmethod
    def of_strings(cls, strings: Sequence[str], name: str = "choices") -> "Constraint":
        if not strings or not all(strings):
            raise InputError(f"{name}: got {len(strings)} texts, or an empty one: give texts")
        written = (json.dumps(string, ensure_ascii=False) for string in strings)
        # One terminal: LLGuidance reads no rule with more than 2,000 alternatives.
        return cls("lark", "start: LABEL\nLABEL: " + " | ".join(written), name)

    @property
    def title(self) -> str:
        """The name, and the layout if that is not the default of json.dumps."""
        layout = self.layout
        return f"{self.name}, written as {layout}" if layout and layout.arguments else self.name

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
    names = [n for n, v in zip(CONSTRAINTS, (schema, grammar, regex), strict=True) if v is not None]
    if len(names) > 1:
        raise InputError(f"{' and '.join(names)} exclude each other: give one of them")
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
