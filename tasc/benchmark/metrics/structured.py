"""Metrics of structured outputs: validity, and the fields of JSON.

A JSON text is flattened into pairs of the path to a value and the value, such as
``(["slots", "date"], "today")``. Empty objects and arrays are values. Text that is not JSON has
none. Values are compared as JSON Schema does: 1 equals 1.0 and 1e0, but not true, and a string has
one value in all its spellings.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from tasc.benchmark.metrics.items import shared
from tasc.benchmark.metrics.metric import Metric, counts_of, share
from tasc.data.choices import read_choices
from tasc.data.foreign import json_value
from tasc.data.lines import text_lines
from tasc.decoding.core.grammar import text_test
from tasc.errors import InputError
from tasc.options.constraint import Constraint

USAGE = "valid:schema=FILE"
KINDS = ("schema", "grammar", "choices", "regex")


def count_pairs(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Count the pairs (N, 3) in both, in the output, and in the reference; arrays have no order."""
    written, wanted = ([Counter(pairs(t, ordered=False)) for t in s] for s in (outputs, references))
    return shared(written, wanted)


def count_fields(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Count the reference's fields (N, 2): those with the same value in the output, and all."""
    both = zip(outputs, references, strict=True)
    counts = [({*pairs(a, ordered=True)}, {*pairs(b, ordered=True)}) for a, b in both]
    return np.array([[len(written & wanted), len(wanted)] for written, wanted in counts], float)


def pairs(text: str, *, ordered: bool) -> list[str]:
    """Flatten a JSON text into pairs as JSON; with ``ordered``, paths have array positions."""
    try:
        return list(_flatten(json_value(text), (), ordered))
    except (ValueError, RecursionError):
        return []


def _flatten(value: object, path: tuple[str | int | None, ...], ordered: bool) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _flatten(part, (*path, name), ordered)
    elif isinstance(value, list) and value:
        for i, part in enumerate(value):
            yield from _flatten(part, (*path, i if ordered else None), ordered)
    else:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        yield json.dumps([path, value])


@cache  # keeps the constraint as it was read
def from_options(options: str) -> Metric:
    """Return the metric of ``schema=FILE`` or another of ``KINDS``. Raises InputError."""
    kind, _, value = options.partition("=")
    if kind not in KINDS or not value:
        raise InputError(
            f"metric 'valid{':' * bool(options)}{options}' has no constraint: write {USAGE}, "
            "valid:grammar=FILE, valid:choices=FILE or valid:regex=EXPRESSION, or set choices "
            "for the task"
        )
    test = cache(partial(_test, kind, value))

    def count(outputs: Sequence[str], _references: Sequence[str], _delimiter: str) -> np.ndarray:
        """Return whether each output is valid, and 1: (N, 2)."""
        return counts_of([test()(output) for output in outputs])

    return Metric(
        "Valid",
        "Share of outputs that satisfy a schema, grammar or regular expression, or are a label.",
        count,
        share,
        package={"schema": "jsonschema", "grammar": "llguidance"}.get(kind, ""),
        zero_one=True,
        ready=lambda: test()(""),
    )


def _test(kind: str, value: str) -> Callable[[str], bool]:
    """Return the test of one output. Raises InputError if the constraint cannot be read."""
    if kind == "regex":
        try:
            expression = re.compile(value)
        except (re.error, OverflowError) as error:
            raise InputError(
                f"{value!r:.60} is no regular expression ({error}): correct it"
            ) from None
        return lambda output: expression.fullmatch(output) is not None
    file = Path(value)
    if not file.is_file():
        raise InputError(f"{value}: no such file for the metric valid: give a file")
    if kind == "choices":
        return frozenset(read_choices(file)).__contains__
    if kind == "grammar":
        return text_test(Constraint("lark", "".join(text_lines(file)), value))
    return _schema_test(file)


def _schema_test(path: Path) -> Callable[[str], bool]:
    """Return a test of JSON texts by the schema in a file. References outside it are not read."""
    from jsonschema import SchemaError, validators
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        schema: Any = json.loads("".join(text_lines(path)))
        kind = validators.validator_for(schema)
        kind.check_schema(schema)
    except (ValueError, TypeError, AttributeError, RecursionError, SchemaError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{path} is not a JSON Schema ({reason}): correct it") from None
    validator = kind(schema, registry=Registry())

    def is_valid(output: str) -> bool:
        try:
            return bool(validator.is_valid(json_value(output)))
        except Unresolvable as error:
            raise InputError(f"{path}: {error}: write the definition into the file") from None
        except (ValueError, OverflowError, RecursionError):  # numbers of hundreds of digits
            return False

    return is_valid
