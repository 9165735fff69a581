"""Tables of results: a page names a file and the columns to show, the file has the figures.

The text of a block is YAML with these keys.

- ``file``: one name in ``benchmarks/results``, or several.
- ``each``: the path of the items that become lines, as ``results.*.auto``. A ``*`` stands for every
  key or every item, a number for one item, ``a|b`` for either key.
- ``columns``: heading to path. A path is looked up in the line, then in its parents, up to the
  whole file. ``*1`` is the key that the first ``*`` of ``each`` matched, and may be part of a path.
  A question mark behind a path makes it optional. The words that follow say how to write the value:
  ``sum``, ``min``, ``max``, ``count`` or ``range`` of several numbers, or ``/`` and the path of a
  divisor; then a format as ``.2f``, ``,`` or ``.0%``. A list of two paths is a figure and its
  range, which stands in brackets.
- ``where``: heading to the text, or texts, of the cells whose lines are shown.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from docs.generate import markdown

FOLDER = Path(__file__).parents[2] / "benchmarks" / "results"

TO = f"{markdown.NO_BREAK}to{markdown.NO_BREAK}"  # a line may break after a dash, not here

# a path through a file: the parents of the line, outermost first; and the keys of its wildcards
Line = tuple[tuple[Any, ...], tuple[str, ...]]
Write = Callable[[float], str]


def table(block: str) -> str:
    """Return the table of ``block``, and below it the machine, commit and command of each file.

    Raises:
        KeyError: a column names a figure that the file does not contain.
    """
    query = yaml.safe_load(block)
    files = _read(query)
    shown = markdown.table(list(query["columns"]), _lines(query, files))
    return "\n\n".join([shown, *origins(files)])


def _read(query: dict[str, Any]) -> dict[str, dict[str, Any]]:
    names = [query["file"]] if isinstance(query["file"], str) else query["file"]
    return {name: json.loads((FOLDER / name).read_text()) for name in names}


def _lines(query: dict[str, Any], files: dict[str, dict[str, Any]]) -> list[list[str]]:
    columns = query["columns"]
    lines = [
        [_shown(path, line) for path in columns.values()]
        for content in files.values()
        for line in lines_of(content, query["each"])
    ]
    shown = [line for line in lines if _wanted(dict(zip(columns, line, strict=True)), query)]
    if not shown:
        raise KeyError(f"{[*files]}: no line matches the block: {query}")
    return shown


def _shown(path: str | list[str], line: Line) -> str:
    """Return the figure of a column, and in brackets its range if a second path has one."""
    if isinstance(path, str):
        return cell(path, line)
    figure, spread = (cell(part, line) for part in path)
    alike = spread in (f"{figure} – {figure}", "–")
    return figure if alike else f"{figure} ({spread.replace(' – ', TO)})"


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
    """Return the keys of ``held`` that ``part`` matches."""
    if isinstance(held, list):
        return range(len(held)) if part == "*" else [int(part)]
    if part == "*":
        return list(held)
    return [key for key in part.split("|") if key in held] if "|" in part else [part]


def cell(path: str, line: Line) -> str:
    """Return the value of a column's ``path`` in a line, in the format of its words."""
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
    if words and words[0] == "/":
        return format(found / _look_up(words[1].split("."), inside), form)
    if words and words[0] in _SUMS:
        return _SUMS[words[0]](found, lambda value: format(value, form))
    return format(found, form) if form else _label(str(found))


def _captured(part: str) -> int:
    """Return 1 for ``*1`` and so on, 0 for anything else."""
    return int(part[1:]) if part.startswith("*") and part[1:].isdigit() else 0


def _label(text: str) -> str:
    return markdown.code(text) if set(text) & set(":=_") else text


def _look_up(parts: Sequence[str], inside: Sequence[Any]) -> Any:  # noqa: ANN401
    """Follow ``parts`` from the innermost item of ``inside`` that has the first key."""
    if parts[0] == "*":
        return [_follow(item, parts[1:]) for item in inside[-1].values()]
    for held in reversed(inside):
        if isinstance(held, dict) and parts[0] in held:
            return _follow(held, parts)
    raise KeyError(f"{'.'.join(parts)}: not in the file")


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
    """Yield a fold for files that were measured alike: versions, conditions and commands."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, content in files.items():
        command = content["command"]  # as typed, or a list of arguments
        if not isinstance(command, str):
            command = " ".join(f'"{part}"' if " " in part else part for part in command)
        line = f"- [{name}](root:benchmarks/results/{name}): {markdown.code(command)}"
        machine = content["environment"]["machine"]
        where = f"{machine['cores']} cores of {machine['processor']}, {machine['system']}"
        alike.setdefault((where, " · ".join(_facts(content))), []).append(line)
    for (where, facts), lines in alike.items():
        yield markdown.fold(f"Measured on {where}", "\n".join([f"{facts}:\n", *lines]))


def _facts(content: dict[str, Any]) -> list[str]:
    made = content["environment"]
    packages = made["packages"]
    dirty = " with changes" if made["git"].endswith("+") else ""
    return [
        f"Python {made['python']}, torch {packages['torch']}, "
        f"transformers {packages['transformers']}",
        f"tasc {made['tasc']} at commit {made['git'].rstrip('+')}{dirty}",
        *([content["dtype"]] if "dtype" in content else []),
        *(f"{word}: {content[key]}" for key, word in _CONDITIONS.items() if key in content),
    ]


_CONDITIONS = {
    "threads": "CPU threads",
    "repeats": "repeats",
    "prompts": "prompts",
    "new_tokens": "new tokens",
}
