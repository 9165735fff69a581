"""Infer what the outputs of a task have in common: a list of labels, or a JSON Schema."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasc.decoding.core.grammar import text_test
from tasc.errors import InputError
from tasc.options.constraint import Constraint

_FITS = 0.99  # smallest share of outputs that fit
_FEWEST = 20  # outputs
_MEASURED = 1000  # held-out outputs that are compared
_REPEATS = 5  # mean number of outputs per label or value of an enum
_LONGEST = 64  # characters of a label
_MOST_VALUES = 100  # of an enum
_MOST_KEYS = 100  # of an object that are optional; beyond it, they are taken to be data
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
Schema = dict[str, Any]
# Separators of items and of keys: json.dumps's own, and none.
_LAYOUTS: tuple[Schema, ...] = ({}, {"x-guidance": {"item_separator": ",", "key_separator": ":"}})


@dataclass(frozen=True)
class Inferred:
    """A constraint that the outputs satisfy: its option, and a file to write."""

    option: str  # "choices" or "schema"
    file: str
    text: str
    share: float  # of held-out outputs that satisfy what the others imply


def infer(outputs: Sequence[str], name: str, seed: int) -> Inferred | None:
    """Return the labels or the JSON Schema of the task ``name``; None if less than 99 % fit.

    The share is measured on a fifth of the outputs, at most 1,000, chosen by ``seed``, with what
    the others imply. A schema is tested as in decoding. The result is inferred from all outputs.
    """
    if len(outputs) < _FEWEST:
        return None
    order = np.random.default_rng(seed).permutation(len(outputs))
    held, rest = ([outputs[i] for i in part] for part in np.split(order, [len(order) // 5]))
    held = held[:_MEASURED]
    values = [value for value in map(_json, outputs) if isinstance(value, dict | list)]
    if len(values) >= _FITS * len(outputs):
        known = schema_of([v for v in map(_json, rest) if isinstance(v, dict | list)])
        with suppress(InputError):  # the schema is too large to decode with
            for layout in _LAYOUTS:
                share = _share(held, text_test(Constraint.of_schema(known | layout)))
                if share >= _FITS:
                    text = json.dumps(schema_of(values) | layout, indent=2, ensure_ascii=False)
                    return Inferred("schema", f"{name}-schema.json", text + "\n", share)
        return None
    labels = sorted(set(outputs))
    if len(labels) * _REPEATS > len(outputs):
        return None
    if any(t != t.strip() or len(t.splitlines()) != 1 or len(t) > _LONGEST for t in labels):
        return None  # not lines of a file of labels
    share = _share(held, set(rest).__contains__)
    text = "\n".join(labels) + "\n"
    made = Inferred("choices", f"{name}-labels.txt", text, share)
    return made if share >= _FITS else None


def _share(outputs: Sequence[str], test: Callable[[str], bool]) -> float:
    return sum(map(test, outputs)) / len(outputs)


def _json(text: str) -> Any:  # noqa: ANN401
    """Return the value of a JSON text; a text that is not JSON is a value of its own."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def schema_of(values: Sequence[Any]) -> Schema:
    """Return the smallest schema of its form that all JSON ``values`` satisfy.

    Objects have all keys of their examples, in the order in which they occur first, and no other;
    a key of all examples is required. If too many others occur, any other key is allowed. Strings
    with few different values become an enum.
    """
    forms: list[Schema] = []
    if objects := [value for value in values if isinstance(value, dict)]:
        forms.append(_schema_of_objects(objects))
    if arrays := [value for value in values if isinstance(value, list)]:
        items = [item for value in arrays for item in value]
        forms.append(
            {"type": "array"} | ({"items": schema_of(items)} if items else {"maxItems": 0})
        )
    kinds = {_TYPES[type(value)] for value in values if type(value) in _TYPES}
    if "number" in kinds:
        kinds.discard("integer")
    strings = [value for value in values if isinstance(value, str)]
    different = sorted(set(strings))
    if strings and len(different) <= min(_MOST_VALUES, len(strings) // _REPEATS):
        forms.append({"type": "string", "enum": different})
        kinds.discard("string")
    forms += [{"type": kind} for kind in sorted(kinds)]
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _schema_of_objects(objects: Sequence[dict[str, Any]]) -> Schema:
    parts: dict[str, list[Any]] = {}
    for name, part in (item for value in objects for item in value.items()):
        parts.setdefault(name, []).append(part)
    required = [name for name, part in parts.items() if len(part) == len(objects)]
    others: list[Any] = []
    if len(parts) - len(required) > _MOST_KEYS:
        others = [part for own in parts.values() if len(own) < len(objects) for part in own]
        parts = {name: parts[name] for name in required}
    return {
        "type": "object",
        "properties": {name: schema_of(part) for name, part in parts.items()},
        "required": required,
        "additionalProperties": schema_of(others) if others else False,
    }
