"""Infer what the outputs of a task have in common: labels, lists of them, or a JSON Schema."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from time import monotonic
from typing import Any

import numpy as np

from tasc.commands.starter.label_lists import DELIMITERS, WORD_DELIMITERS, label_lists
from tasc.decoding.core.grammar import text_test
from tasc.decoding.core.misfit import misfits
from tasc.errors import InputError
from tasc.options.constraint import Constraint

_FITS = 0.99  # smallest share of outputs that fit
_FEWEST = 20  # outputs
_MEASURED = 1000  # held-out outputs that are compared
_REPEATS = 5  # mean number of outputs per label or value of an enum
_LONGEST = 64  # characters of a label
_MOST_VALUES = 100  # of an enum
_MOST_KEYS = 100  # of an object that most examples lack; beyond it, they are taken to be data
_SECONDS = 20.0  # after which no further outputs are compared
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
Schema = dict[str, Any]


@dataclass(frozen=True)
class Inferred:
    """A constraint that the outputs satisfy: its option, and a file to write."""

    option: str  # "choices", "grammar" or "schema"
    file: str
    text: str
    share: float  # of held-out outputs that satisfy what the others imply
    delimiter: str = ""  # between the labels of an output

    @property
    def is_labels(self) -> bool:
        """Whether each output is a label, or a list of labels."""
        if self.option != "schema":
            return True
        schema = json.loads(self.text)
        return schema.get("type") == "array" and "enum" in schema.get("items", {})


def infer(outputs: Sequence[str], name: str, seed: int, *, words: bool = False) -> Inferred | None:
    """Return the labels or the JSON Schema of the task ``name``; None if less than 99 % fit.

    Lists of labels become a grammar. With ``words``, outputs were lists of words, joined by spaces.
    The share is measured on a fifth of the outputs, at most 1,000, chosen by ``seed``, with what
    the others imply. A schema is tested as in decoding, and states how json.dumps wrote the outputs
    where that is not by default. The result is inferred from all outputs.
    """
    if len(outputs) < _FEWEST:
        return None
    order = np.random.default_rng(seed).permutation(len(outputs)).tolist()
    held_out = [outputs[i] for i in order[: len(order) // 5][:_MEASURED]]
    read = [_json(text) for text in outputs]
    values = [value for value in read if isinstance(value, dict | list)]
    if len(values) >= _FITS * len(outputs):
        rest = (read[i] for i in order[len(order) // 5 :])
        rest_values = [value for value in rest if isinstance(value, dict | list)]
        with suppress(InputError, RecursionError):  # the schema is too large to decode with
            share = _fitting(held_out, _constraint(rest_values, outputs))
            constraint = _constraint(values, outputs)
            if share >= _FITS and _fitting(held_out, constraint) >= _FITS:
                text = json.dumps(json.loads(constraint.text), indent=2, ensure_ascii=False)
                return Inferred("schema", f"{name}-schema.json", text + "\n", share)
        return None
    texts = [outputs[i] for i in order[len(order) // 5 :]]
    labels = _labels(outputs, held_out, texts, name)
    return labels or _label_lists(outputs, held_out, texts, name, words)


def _labels(
    outputs: Sequence[str], held_out: Sequence[str], others: Sequence[str], name: str
) -> Inferred | None:
    """Return labels of which each output is one."""
    labels = sorted(set(outputs))
    if len(labels) * _REPEATS > len(outputs):
        return None
    if any(t != t.strip() or len(t.splitlines()) != 1 or len(t) > _LONGEST for t in labels):
        return None  # not lines of a file of labels
    share = _share(held_out, {*others}.__contains__)
    text = "\n".join(labels) + "\n"
    inferred = Inferred("choices", f"{name}-labels.txt", text, share)
    return inferred if share >= _FITS else None


def _label_lists(
    outputs: Sequence[str], held_out: Sequence[str], others: Sequence[str], name: str, words: bool
) -> Inferred | None:
    """Return a grammar of outputs that are lists of labels."""
    delimiters = WORD_DELIMITERS if words else DELIMITERS
    of_others = label_lists(others, delimiters)
    of_all = label_lists(outputs, delimiters)
    if of_others is None or of_all is None or of_others.delimiter != of_all.delimiter:
        return None
    share = _share(held_out, of_others.fits)
    if min(share, _share(held_out, of_all.fits)) < _FITS:
        return None
    delimiter = of_all.delimiter.strip() or of_all.delimiter
    return Inferred("grammar", f"{name}-labels.lark", of_all.grammar, share, delimiter)


def unfit(outputs: Sequence[str]) -> str:
    """Return why the JSON outputs of a task have no schema; an empty text if they are not JSON."""
    values = [value for value in map(_json, outputs) if isinstance(value, dict | list)]
    if len(outputs) < _FEWEST or len(values) < _FITS * len(outputs):
        return ""
    with suppress(InputError, RecursionError):
        reasons = misfits(outputs[:_MEASURED], _constraint(values, outputs))
        return reasons[0] if reasons else "they have too little in common"
    return "it would be too large to decode with"


def _constraint(values: Sequence[Any], outputs: Sequence[str]) -> Constraint:
    """Return the smallest schema of ``values``, with the layout of ``outputs``."""
    return Constraint.of_schema(schema_of(values)).written_as(outputs)


def _fitting(outputs: Sequence[str], constraint: Constraint) -> float:
    return _share(outputs, text_test(constraint))


def _share(outputs: Sequence[str], test: Callable[[str], bool]) -> float:
    end, fitting = monotonic() + _SECONDS, list[bool]()
    for output in outputs:
        fitting.append(test(output))
        if monotonic() > end:
            break
    return sum(fitting) / len(fitting)


def _json(text: str) -> Any:  # noqa: ANN401
    """Return the value of a JSON text; a text that is not JSON in UTF-8 is a value of its own."""
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # an escape may be half of a character
    except (ValueError, RecursionError):
        return text
    return value


def schema_of(values: Sequence[Any]) -> Schema:
    """Return the smallest schema of its form that all JSON ``values`` satisfy.

    Objects have all keys of their examples, in an order that agrees with most of them, and no
    other; a key of all examples is required. If too many keys are missing in most examples, these
    are left out, and any other key is allowed. Strings with few different values become an enum.
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
    rare = [name for name, part in parts.items() if 2 * len(part) < len(objects)]
    dropped = rare if len(rare) > _MOST_KEYS else []
    others = [part for name in dropped for part in parts.pop(name)]
    return {
        "type": "object",
        "properties": {name: schema_of(parts[name]) for name in _in_order(parts, objects)},
        "required": [name for name, part in parts.items() if len(part) == len(objects)],
        "additionalProperties": schema_of(others) if others else False,
    }


def _in_order(names: Collection[str], objects: Sequence[dict[str, Any]]) -> list[str]:
    """Sort ``names`` as most objects have them; where they contradict each other, as they are."""
    follows = Counter(
        pair for value in objects for pair in pairwise(name for name in value if name in names)
    )
    before: dict[str, list[str]] = {name: [] for name in names}
    for (first, second), count in follows.items():
        if count > follows[second, first]:
            before[second].append(first)
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        return list(names)
