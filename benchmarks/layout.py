"""The layout of result files: one line per cell, so a difference is easy to read."""

import json
from collections.abc import Iterator
from typing import Any


def layout(content: dict[Any, Any]) -> str:
    """Return ``content`` as JSON with a final newline.

    The file, and each object or list of objects and lists alone, has one item per line. Anything
    else is on one line.
    """
    plain = json.loads(json.dumps(content))  # keys are text, tuples are lists
    return "".join(_lines(plain, "", whole=False)) + "\n"


def _lines(value: Any, indent: str, *, whole: bool = True) -> Iterator[str]:  # noqa: ANN401
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not items or (whole and not all(isinstance(item, dict | list) for item in items)):
        yield json.dumps(value)
        return
    named = isinstance(value, dict)
    names = [f"{json.dumps(name)}: " for name in value] if named else [""] * len(value)
    yield "{" if named else "["
    for number, (name, item) in enumerate(zip(names, items, strict=True)):
        yield f"{',' if number else ''}\n{indent} {name}"
        yield from _lines(item, indent + " ")
    yield f"\n{indent}{'}' if named else ']'}"
