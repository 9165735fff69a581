"""Tables of results: a page names a file and what to show, the file has the figures.

A block is YAML with these keys.

- ``file``: one name in ``benchmarks/results``, or several.
- ``each``: the path of what becomes a line, as ``results.*.auto``. A ``*`` stands for every key or
  every item, a number for one item, ``a|b`` for either key.
- ``columns``: heading to path. A path is looked up in the line, then in what encloses it, up to the
  whole file. ``*1`` is the key that the first ``*`` of ``each`` stood for, and may be part of a
  path. A question mark behind a path allows that it is absent. Words that follow say how to write
  what was found: ``sum``, ``min``, ``max``, ``count`` or ``range`` of several numbers, then a
  format as ``.2f``, ``,`` or ``.0%``.
- ``where``: heading to the text, or texts, that its cell must be to keep a line.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from site_tables import markdown

FOLDER = Path(__file__).parents[2] / "benchmarks" / "results"

# one path through a file: what encloses the line, outermost first; and the keys of its wild cards
Line = tuple[tuple[Any, ...], tuple[str, ...]]
Write = Callable[[float], str]


def table(block: str) -> str:
    """Return the table that ``block`` asks for, and below it what made the figures.

    Raises:
        KeyError: the file does not hold what a column names.
    """
    asked = yaml.safe_load(block)
    names = [asked["file"]] if isinstance(asked["file"], str) else asked["file"]
    files = {name: json.loads((FOLDER / name).read_text()) for name in names}
    columns = asked["columns"]
    lines = [
        [cell(path, line) for path in columns.values()]
        for held in files.values()
        for line in lines_of(held, asked["each"])
    ]
    kept = [line for line in lines if _wanted(dict(zip(columns, line, strict=True)), asked)]
    if not kept:
        raise KeyError(f"{names}: no line has what the block asks for: {asked}")
    return "\n\n".join([markdown.table(list(columns), kept), *origins(files)])


def lines_of(held: Any, each: str) -> Iterator[Line]:  # noqa: ANN401
    """Follow ``each`` into a file and yield every line."""
    found: list[Line] = [((held,), ())]
    for part in each.split("."):
        found = [
            ((*inside, inside[-1][key]), (*keys, str(key)) if _wild(part) else keys)
            for inside, keys in found
            for key in _keys(inside[-1], part)
        ]
    yield from found


def _wild(part: str) -> bool:
    return part == "*" or "|" in part


def _keys(held: Any, part: str) -> Sequence[Any]:  # noqa: ANN401
    """Return what ``part`` stands for in ``held``: of alternatives, those that are there."""
    if isinstance(held, list):
        return range(len(held)) if part == "*" else [int(part)]
    if part == "*":
        return list(held)
    return [key for key in part.split("|") if key in held] if "|" in part else [part]


def cell(path: str, line: Line) -> str:
    """Return what a column's ``path`` finds for a line, written as its words say."""
    inside, keys = line
    where, *words = path.split()
    parts = where.removesuffix("?").split(".")
    if len(parts) == 1 and (number := _captured(parts[0])):
        return _label(keys[number - 1])
    parts = [keys[number - 1] if (number := _captured(part)) else part for part in parts]
    try:
        found = _look_up(parts, inside)
    except KeyError:
        if where.endswith("?"):
            return "–"
        raise
    form = words[-1] if words and words[-1] not in _SUMS else ""
    if words and words[0] in _SUMS:
        return _SUMS[words[0]](found, lambda value: format(value, form))
    return format(found, form) if form else _label(str(found))


def _captured(part: str) -> int:
    """Return the number of a ``*1``, 0 for anything else."""
    return int(part[1:]) if part.startswith("*") and part[1:].isdigit() else 0


def _label(text: str) -> str:
    return markdown.code(text) if set(text) & set(":=_") else text


def _look_up(parts: Sequence[str], inside: Sequence[Any]) -> Any:  # noqa: ANN401
    """Follow ``parts`` from the innermost of ``inside`` that has the first of them."""
    if parts[0] == "*":
        return [_follow(item, parts[1:]) for item in inside[-1].values()]
    for held in reversed(inside):
        if isinstance(held, dict) and parts[0] in held:
            return _follow(held, parts)
    raise KeyError(f"{'.'.join(parts)}: not in the file, nor in what encloses it")


def _follow(held: Any, parts: Sequence[str]) -> Any:  # noqa: ANN401
    for part in parts:
        held = held[int(part)] if isinstance(held, list) else held[part]
    return held


_SUMS: dict[str, Callable[[Sequence[float], Write], str]] = {
    "sum": lambda values, write: write(sum(values)),
    "min": lambda values, write: write(min(values)),
    "max": lambda values, write: write(max(values)),
    "count": lambda values, _: str(len(values)),
    "range": lambda values, write: f"{write(min(values))} – {write(max(values))}",
}


def _wanted(cells: dict[str, str], asked: dict[str, Any]) -> bool:
    return all(
        cells[heading].strip("`") in ([keep] if isinstance(keep, str) else keep)
        for heading, keep in asked.get("where", {}).items()
    )


def origins(files: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Say what made files, those alike together: machine, versions, conditions and commands."""
    alike: dict[str, list[str]] = {}
    for name, held in files.items():
        command = " ".join(f'"{part}"' if " " in part else part for part in held["command"])
        line = f"[{name}](root:results/data/{name}): `{command}`"
        alike.setdefault(" · ".join(_facts(held)), []).append(line)
    for facts, made in alike.items():
        lines = "<br>\n".join([facts, *made])
        yield f'<div class="origin" markdown>\n{lines}\n</div>'


def _facts(held: dict[str, Any]) -> list[str]:
    made = held["environment"]
    machine, packages = made["machine"], made["packages"]
    dirty = " with changes" if made["git"].endswith("+") else ""
    return [
        f"{machine['cores']} cores of {machine['processor']}, {machine['system']}",
        f"Python {made['python']}, torch {packages['torch']}, "
        f"transformers {packages['transformers']}",
        f"tasc {made['tasc']} at commit {made['git'].rstrip('+')}{dirty}",
        *([held["dtype"]] if "dtype" in held else []),
        *(f"{word}: {held[key]}" for key, word in _CONDITIONS.items() if key in held),
    ]


_CONDITIONS = {
    "threads": "CPU threads",
    "repeats": "repeats",
    "prompts": "prompts",
    "new_tokens": "new tokens",
}
