"""Keywords of JSON Schema: types, sizes and references."""

from collections.abc import Mapping
from typing import Any

from tasc.schema.pattern import UnsupportedError

Schema = Mapping[str, Any]
# Keywords without an effect with these values, which schema writers state nevertheless.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "uniqueItems": (False,),
    "minProperties": (0,),
    "not": (False,),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "propertyNames"), (True, {})),
    **dict.fromkeys(("patternProperties", "dependentSchemas", "dependentRequired"), ({},)),
}
# Keywords without an effect unless the schema has one of others.
_NEEDS = {
    **dict.fromkeys(("then", "else"), ("if",)),
    "if": ("then", "else"),
    **dict.fromkeys(("minContains", "maxContains"), ("contains",)),
}
# Keywords without an effect on values of other types.
_ONLY_OF = {
    **dict.fromkeys(("uniqueItems", "unevaluatedItems", "contains"), "array"),
    **dict.fromkeys(("minContains", "maxContains"), "array"),
    **dict.fromkeys(("minProperties", "maxProperties", "unevaluatedProperties"), "object"),
    **dict.fromkeys(("patternProperties", "propertyNames"), "object"),
    **dict.fromkeys(("dependentSchemas", "dependentRequired"), "object"),
}
_OF_SCHEMAS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_SCHEMAS = ("anyOf", "allOf", "oneOf", "prefixItems")
_A_SCHEMA = ("items", "additionalProperties", "contains", "not", "if", "then", "else")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_ALL = ("null", "boolean", "number", "string", "array", "object")


def types_of(schema: Schema) -> list[str]:
    """Return the types that a schema allows. Raises UnsupportedError for unknown ones."""
    stated = schema.get("type", list(_ALL))
    kinds = [stated] if isinstance(stated, str) else stated
    if not isinstance(kinds, list) or not all(kind in TYPES for kind in kinds) or not kinds:
        raise UnsupportedError(f"type {stated!r:.60}")
    return kinds


def is_of_type(value: object, kind: str) -> bool:
    """Return whether a JSON value is of a type of JSON Schema: 1.0 is an integer, true is not."""
    if isinstance(value, bool) or value is None:
        return kind == ("null" if value is None else "boolean")
    if isinstance(value, int | float):
        whole = isinstance(value, int) or value.is_integer()
        return kind == "number" or (kind == "integer" and whole)
    named = {"string": str, "array": list, "object": dict}
    return kind in named and isinstance(value, named[kind])


def is_size(value: object) -> bool:
    """Return whether a JSON value can be a length: a whole number, not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == int(value) >= 0


def effective(schema: Any) -> Any:  # noqa: ANN401 - a schema, or a malformed one
    """Return a schema without keywords that have no effect, such as ``"uniqueItems": false``."""
    if not isinstance(schema, Mapping):
        return schema
    keywords: dict[str, Any] = {}
    for key, value in schema.items():
        if _has_no_effect(key, value, schema):
            continue
        keywords[key] = value
        if key in _A_SCHEMA:
            keywords[key] = effective(value)
        elif key in _SCHEMAS and isinstance(value, list):
            keywords[key] = [effective(part) for part in value]
        elif key in _OF_SCHEMAS and isinstance(value, Mapping):
            keywords[key] = {name: effective(part) for name, part in value.items()}
    return keywords


def _has_no_effect(key: str, value: object, schema: Schema) -> bool:
    neutral = _NEUTRAL.get(key, ())
    if any(type(value) is type(plain) and value == plain for plain in neutral):
        return True
    if key in _NEEDS and not any(other in schema for other in _NEEDS[key]):
        return True
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return key in _ONLY_OF and isinstance(kinds, list) and _ONLY_OF[key] not in kinds


def references(schema: object) -> list[str]:
    """Return all references below a part of a schema."""
    if isinstance(schema, Mapping):
        paths = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
        return paths + [path for part in schema.values() for path in references(part)]
    if isinstance(schema, list):
        return [path for part in schema for path in references(part)]
    return []


def resolved(root: Schema, path: object) -> Any:  # noqa: ANN401
    """Return the part of a schema that a reference to the same file points to.

    Raises UnsupportedError for other references, and for a missing part.
    """
    if not isinstance(path, str) or not (path == "#" or path.startswith("#/")):
        raise UnsupportedError("$ref")
    part: Any = root
    for step in path[2:].split("/") if path != "#" else []:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, Mapping) and name in part:
            part = part[name]
        elif isinstance(part, list) and name.isdigit() and int(name) < len(part):
            part = part[int(name)]
        else:
            raise UnsupportedError("$ref")
    return part
