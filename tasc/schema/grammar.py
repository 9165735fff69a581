"""The grammar of a schema's documents, in llguidance's dialect of Lark.

llguidance reads JSON Schema itself, but its strings have one spelling: it takes no ``\\u00fc`` in
a key, an enum or a pattern (and before 1.8 nowhere), no ``\\/``, no 1.0 for an integer, and no
indentation that depends on the depth. The grammar written here has all of that. It leaves keywords
that it does not know to llguidance, as ``%json`` of that part of the schema.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasc.schema.keywords import (
    Schema,
    effective,
    is_of_type,
    is_size,
    references,
    resolved,
    types_of,
)
from tasc.schema.layout import Layout
from tasc.schema.pattern import UnsupportedError, expression
from tasc.schema.spelling import (
    CHARACTER,
    INTEGER,
    NUMBER,
    STRING,
    any_spelling,
    exponents,
    literal,
    number,
    string,
)

# Keywords of the vocabularies of JSON Schema that are left to llguidance, which refuses most.
_LEFT = {
    *("allOf", "oneOf", "not", "if", "then", "else", "patternProperties", "propertyNames"),
    *("dependentSchemas", "dependentRequired", "dependencies", "contains", "minContains"),
    *("maxContains", "uniqueItems", "minProperties", "maxProperties", "unevaluatedItems"),
    *("unevaluatedProperties", "additionalItems", "$dynamicRef", "$recursiveRef"),
}
_OF_TYPE = {
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "object": ("properties", "required", "additionalProperties"),
}
_OF_TYPE["number"] = _OF_TYPE["integer"]
_KNOWN = {"type", "enum", "const", "anyOf", "$ref", *(k for ks in _OF_TYPE.values() for k in ks)}
_TOGETHER = 16  # properties in one rule
_WIDEST = 1000  # alternatives of one rule
_DEEPEST = 12  # level up to which indentation is exact
_LOOSE = _DEEPEST + 1  # a level with any indentation
_OF_ROOT = {"$defs", "definitions", "$schema"}  # keys that parts of a schema may refer to
_PATHS = ("#/$defs/", "#/definitions/")
# Raised by a schema of which a keyword has a wrong value: llguidance reports it.
_MALFORMED = (TypeError, ValueError, AttributeError, KeyError, OverflowError)


class NeverError(Exception):
    """No document satisfies a part of the schema."""


class UnwritableError(Exception):
    """A part of the schema that only llguidance reads, and that has no indentation there."""


def grammar_of(schema: Schema, layout: Layout, options: Mapping[str, Any] | None = None) -> str:
    """Return the grammar of the documents of ``schema`` that are written in ``layout``.

    Keys come in the order of ``properties``. ``options`` are llguidance's, for parts that it reads.
    Raises UnwritableError for such a part with arrays or objects if the layout has an indent.
    """
    try:
        schema = effective(schema)
        rules = _Rules(schema, layout, dict(options or {}))
        start = rules.value(schema, 0)
    except (UnsupportedError, NeverError, RecursionError, *_MALFORMED) as error:
        rules = _Rules(schema, layout, dict(options or {}))
        start = rules.left(schema, whole=True, why=str(error))
    return "\n".join([f"start: {start}", *rules.rules.values(), *rules.terminals.values()])


@dataclass
class _Rules:
    root: Schema
    layout: Layout
    options: dict[str, Any]
    rules: dict[str, str] = field(default_factory=dict)
    terminals: dict[str, str] = field(default_factory=dict)
    references: dict[tuple[str, int], str] = field(default_factory=dict)
    anything: str = ""  # the rule of any value

    def terminal(self, regex: str) -> str:
        """Return the name of the terminal of an expression."""
        return self._terminal(f"/{regex}/")

    def _terminal(self, definition: str) -> str:
        if definition not in self.terminals:
            self.terminals[definition] = f"T{len(self.terminals)}: {definition}"
        return self.terminals[definition].partition(":")[0]

    def rule(self, definition: str, name: str = "") -> str:
        name = name or self._reserve()
        self.rules[name] = f"{name}: {definition}"
        return name

    def _reserve(self) -> str:
        name = f"r{len(self.rules)}"
        self.rules[name] = ""
        return name

    # Values

    def value(self, schema: object, depth: int) -> str:
        """Return the expansion of a value of ``schema``, at a depth of nesting."""
        if schema is True:
            return self.any()
        if schema is False:
            raise NeverError("false")
        if not isinstance(schema, Mapping):
            raise UnsupportedError("a schema that is no object")
        try:
            return self._value(schema, depth)
        except UnsupportedError as error:
            if schema is self.root:
                raise
            return self.left(schema, whole=False, why=str(error))

    def _value(self, schema: Schema, depth: int) -> str:
        if left := _LEFT & schema.keys():
            raise UnsupportedError(min(left))
        if "$id" in schema and schema is not self.root:
            raise UnsupportedError("$id")
        named = _KNOWN & schema.keys()
        if not named:
            return self.any()
        for keyword in ("$ref", "anyOf", "const", "enum"):
            if keyword in named:
                beside = named - {keyword} - ({"type"} if keyword in ("const", "enum") else set())
                if beside:
                    raise UnsupportedError(f"{keyword} beside {min(beside)}")
                make: Callable[[Schema, int], str] = getattr(self, f"_{keyword.strip('$')}")
                return make(schema, depth)
        return self.rule(" | ".join(self._of_types(schema, depth)))

    def _of_types(self, schema: Schema, depth: int) -> list[str]:
        alternatives = list[str]()
        for kind in types_of(schema):
            try:
                alternatives.append(self._of_type(kind, schema, depth))
            except NeverError as error:
                never = error
        if not alternatives:
            raise never
        return alternatives

    def _of_type(self, kind: str, schema: Schema, depth: int) -> str:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        if kind == "string":
            return self._string(schema)
        if kind in ("integer", "number"):
            return self._number(kind, schema)
        return self.terminal("null" if kind == "null" else "true|false")

    def any(self) -> str:
        """Return the rule of any value, with any indentation."""
        if not self.anything:
            self.anything = self._reserve()
            parts = [self.terminal(part) for part in ("null", "true|false", NUMBER, STRING)]
            parts += [self._array({}, _LOOSE), self._object({}, _LOOSE)]
            self.rule(" | ".join(parts), self.anything)
        return self.anything

    def left(self, schema: Schema, *, whole: bool, why: str) -> str:
        """Return the rule of a part that llguidance reads."""
        if self.layout.indent is not None and set(types_of(schema)) & {"array", "object"}:
            raise UnwritableError(why)
        if not whole and not all(path.startswith(_PATHS) for path in references(schema)):
            raise UnsupportedError("$ref")
        defined = {} if whole else {name: self.root[name] for name in _OF_ROOT & self.root.keys()}
        options = {
            "whitespace_flexible": False,
            "item_separator": self.layout.item_separator,
            "key_separator": self.layout.key_separator,
        }
        text = json.dumps({**defined, **schema, "x-guidance": options | self.options})
        return self.rule(f"%json {text}")

    # Applicators and constants

    def _ref(self, schema: Schema, depth: int) -> str:
        path = schema["$ref"]
        level = 0 if self.layout.indent is None else min(depth, _LOOSE)
        if (path, level) not in self.references:
            name = self.references[path, level] = self._reserve()
            target = resolved(self.root, path)
            if isinstance(target, Mapping) and "$ref" in target:
                raise UnsupportedError("$ref to a $ref")
            self.rule(self.value(target, depth), name)
        return self.references[path, level]

    def _anyOf(self, schema: Schema, depth: int) -> str:
        ways = list[str]()
        if not isinstance(schema["anyOf"], Sequence) or not schema["anyOf"]:
            raise UnsupportedError("anyOf")
        never = NeverError("anyOf")
        for way in schema["anyOf"]:
            try:
                ways.append(self.value(way, depth))
            except NeverError as error:
                never = error
        if not ways:
            raise never
        return self.rule(" | ".join(dict.fromkeys(ways)))

    def _const(self, schema: Schema, depth: int) -> str:
        return self._constants([schema["const"]], schema, depth)

    def _enum(self, schema: Schema, depth: int) -> str:
        if not isinstance(schema["enum"], Sequence) or not schema["enum"]:
            raise UnsupportedError("enum")
        return self._constants(schema["enum"], schema, depth)

    def _constants(self, values: Sequence[Any], schema: Schema, depth: int) -> str:
        kinds = types_of(schema)
        values = [value for value in values if any(is_of_type(value, kind) for kind in kinds)]
        if not values:
            raise NeverError("enum")
        scalars = [value for value in values if not isinstance(value, list | dict)]
        ways = [self._constant(v, depth) for v in values if isinstance(v, list | dict)]
        if scalars:
            spelled = dict.fromkeys(map(self._spelled, scalars))
            ways.append(self.terminal("|".join(spelled)))
        return self.rule(" | ".join(ways)) if len(ways) > 1 else ways[0]

    def _spelled(self, value: object) -> str:
        """Return the expression of a null, boolean, number or string."""
        if isinstance(value, str):
            return self._quoted(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return number(value)
        return literal(json.dumps(value))

    def _quoted(self, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UnsupportedError("half of a surrogate pair") from None
        return string(text, self.layout.ensure_ascii)

    def _constant(self, value: object, depth: int) -> str:
        inner = depth + 1
        if isinstance(value, dict):
            parts = [
                f"{self._key(name)} {self._constant(part, inner)}" for name, part in value.items()
            ]
            return self._around("{", self._joined(parts, inner), "}", depth, empty=not parts)
        if isinstance(value, list):
            parts = [self._constant(part, inner) for part in value]
            return self._around("[", self._joined(parts, inner), "]", depth, empty=not parts)
        return self.terminal(self._spelled(value))

    # Strings and numbers

    def _string(self, schema: Schema) -> str:
        limits = {name: schema[name] for name in _OF_TYPE["string"] if name in schema}
        fewest, most = (limits.get(name) for name in ("minLength", "maxLength"))
        if "format" in limits:
            return self.left({"type": "string", **limits}, whole=False, why="format")
        if not limits:
            return self.terminal(STRING)
        if not all(length is None or is_size(length) for length in (fewest, most)):
            raise UnsupportedError("a length")
        if most is not None and (fewest or 0) > most:
            raise NeverError("minLength is greater than maxLength")
        bounds = f'/"{CHARACTER}{{{int(fewest or 0)},{"" if most is None else int(most)}}}"/'
        if "pattern" not in limits:
            return self._terminal(bounds)
        try:
            pattern = expression(limits["pattern"], self.layout.ensure_ascii)
        except UnsupportedError as error:
            return self.left({"type": "string", **limits}, whole=False, why=str(error))
        definition = f"/{pattern}/"
        if fewest is None and most is None:
            return self._terminal(definition)
        return self._terminal(f"{definition} & {bounds}")

    def _number(self, kind: str, schema: Schema) -> str:
        bounds = {name: schema[name] for name in _OF_TYPE["number"] if name in schema}
        if not bounds:
            return self.terminal(INTEGER if kind == "integer" else NUMBER)
        left = self.left({"type": kind, **bounds}, whole=False, why=min(bounds))
        if kind == "integer":  # json.dumps writes 1.0 for a float
            whole = self.terminal(r"\.0+")
            return self.rule(f"{left} {whole}?")
        others = [self.terminal(regex) for regex in exponents(bounds)]
        return self.rule(" | ".join([left, *others]))

    # Arrays and objects

    def _newline(self, depth: int) -> str:
        """Return the expression of the line break before an item of ``depth`` levels."""
        indent = self.layout.indent
        if indent is None:
            return ""
        if depth > _DEEPEST:
            return f"\\n(?:{literal(indent)})*" if indent else "\\n"
        return "\\n" + literal(indent * depth)

    def _around(self, opening: str, body: str, closing: str, depth: int, *, empty: bool) -> str:
        """Return brackets around ``body``, an expansion that is not empty, or an empty text."""
        first, last = (self.terminal(literal(bracket)) for bracket in (opening, closing))
        if not body:
            return f"{first} {last}"
        if self.layout.indent is not None:
            body = f"{self.terminal(self._newline(depth + 1))} {body}"
            body += f" {self.terminal(self._newline(depth))}"
        return self.rule(f"{first} ({body})? {last}" if empty else f"{first} {body} {last}")

    def _separator(self, depth: int) -> str:
        return self.terminal(literal(self.layout.item_separator) + self._newline(depth))

    def _joined(self, parts: Sequence[str], depth: int) -> str:
        return f" {self._separator(depth)} ".join(parts) if parts else ""

    def _array(self, schema: Schema, depth: int) -> str:
        items, first = schema.get("items", True), schema.get("prefixItems", [])
        fewest, most = schema.get("minItems", 0), schema.get("maxItems")
        if isinstance(items, list) or not isinstance(first, list) or not is_size(fewest):
            raise UnsupportedError("items")
        if most is not None and not is_size(most):
            raise UnsupportedError("maxItems")
        inner = depth + 1
        try:
            more = self.value(items, inner) if most is None or most > len(first) else None
        except NeverError:
            more = None
        parts = list[str]()
        for item in first[: most if most is None else int(most)]:
            try:
                parts.append(self.value(item, inner))
            except NeverError:
                more = None
                break
        most = len(parts) if more is None else most
        if most is not None and fewest > most:
            raise NeverError("minItems")
        body = self._items(parts, more, (int(fewest), most), inner)
        return self._around("[", body, "]", depth, empty=not fewest)

    def _items(
        self, parts: Sequence[str], more: str | None, bounds: tuple[int, int | None], depth: int
    ) -> str:
        """Return the expansion of a list that is not empty; an empty text if it must be."""
        (fewest, most), separator = bounds, self._separator(depth)
        body = ""
        if more is not None:
            low = max(fewest - len(parts), 0)
            high = None if most is None else int(most) - len(parts)
            body = more if parts else _times(f"({more} {separator})", low - 1, high, last=more)
            if parts:
                body = _times(f"({separator} {more})", low, high)
        for i, part in reversed(list(enumerate(parts))):
            here = f"{part} {body}".strip()
            if i:
                here = f"{separator} {here}"
            body = here if i < max(fewest, 1) else f"({here})?"
        return body

    def _object(self, schema: Schema, depth: int) -> str:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        others, inner = schema.get("additionalProperties", True), depth + 1
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            raise UnsupportedError("properties")
        named = {**properties, **{name: others for name in required if name not in properties}}
        pairs = list[tuple[str, bool]]()
        for name, part in named.items():
            try:
                pairs.append((f"{self._key(name)} {self.value(part, inner)}", name in required))
            except NeverError:
                if name in required:
                    raise
        body = self._pairs(pairs, self._other(list(named), others, inner), inner)
        return self._around("{", body, "}", depth, empty=not any(needed for _, needed in pairs))

    def _key(self, name: str) -> str:
        return self.terminal(self._quoted(name) + literal(self.layout.key_separator))

    def _other(self, taken: Sequence[str], schema: object, depth: int) -> str | None:
        """Return the rule of a pair with another name than ``taken``."""
        try:
            value = self.value(schema, depth)
        except NeverError:
            return None
        separator = literal(self.layout.key_separator)
        if not taken:
            return f"{self.terminal(STRING + separator)} {value}"
        names = "|".join(map(any_spelling, taken))
        free = self._terminal(f"/{STRING}/ & ~/{names}/")
        return f"{free} {self.terminal(separator)} {value}"

    def _pairs(self, pairs: Sequence[tuple[str, bool]], other: str | None, depth: int) -> str:
        """Return the expansion of pairs in their order, at least one; an empty text without any."""
        separator = self._separator(depth)
        starts = [f"{other} ({separator} {other})*"] if other else []  # its possible beginnings
        after = f"({separator} {other})*" if other else ""  # behind the pairs so far
        for i, (pair, needed) in enumerate(reversed(pairs), 1):
            begins = f"{pair} {after}".strip()
            starts = [begins] if needed else [begins, *starts]
            here = f"{separator} {pair}"
            after = f"{here} {after}".strip() if needed else f"({here})? {after}".strip()
            if i % _TOGETHER == 0:  # llguidance follows rules by recursion, so few are nested
                after = self.rule(after)
        while len(starts) > _WIDEST:
            starts = [
                self.rule(" | ".join(starts[i : i + _WIDEST]))
                for i in range(0, len(starts), _WIDEST)
            ]
        return f"({' | '.join(starts)})" if len(starts) > 1 else "".join(starts)


def _times(part: str, low: int, high: int | None, last: str = "") -> str:
    """Return ``part`` repeated ``low`` to ``high`` times, and then ``last``, which counts too."""
    low = max(low, 0)
    if last:
        high = None if high is None else high - 1
    if high == 0:
        return last
    return f"{part}{{{low},{'' if high is None else high}}} {last}".strip()
