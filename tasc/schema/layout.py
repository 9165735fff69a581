"""How a task writes JSON, in terms of the arguments of json.dumps, and how to find it out."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tasc.errors import InputError

KEY = "x-json-dumps"  # of a schema
_MEASURED = 1000  # outputs whose layout is read
_TOKEN = re.compile(
    r'[ \t\r\n]*("(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s"\[\]{},:]+)(?=([ \t\r\n]*))', re.DOTALL
)
_ITEM = re.compile(r"[ \t\r\n]*,[ \t\r]*")
_KEY = re.compile(r"[ \t\r\n]*:[ \t\r\n]*")
_INDENT = re.compile(r"[ \t]*")
_OPENING, _CLOSING = frozenset("[{"), frozenset("]}")


@dataclass(frozen=True)
class Layout:
    """How JSON texts are written.

    ``indent``: the text of one level, None for one line. ``ensure_ascii``: True, False, or None if
    characters other than printable ASCII may be written in either way, "/" also as "\\/", and
    those of HTML such as "&" also as escapes.
    """

    item_separator: str = ", "
    key_separator: str = ": "
    indent: str | None = None
    ensure_ascii: bool | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of json.dumps that write texts so."""
        arguments: dict[str, Any] = {}
        separators = (self.item_separator, self.key_separator)
        if separators != _separators(self.indent):
            arguments["separators"] = separators
        if self.indent is not None:
            spaces = not self.indent.strip(" ")
            arguments["indent"] = len(self.indent) if spaces else self.indent
        if self.ensure_ascii is not None:
            arguments["ensure_ascii"] = self.ensure_ascii
        return arguments

    def __str__(self) -> str:
        """Return the call, such as ``json.dumps(…, indent=2)``."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"json.dumps(…{', ' * bool(arguments)}{arguments})"

    def dumps(self, value: object) -> str:
        return json.dumps(value, **({"ensure_ascii": False} | self.arguments))


def _separators(indent: str | None) -> tuple[str, str]:
    """Return the separators of json.dumps by default."""
    return (", " if indent is None else ",", ": ")


def layout_of(schema: Mapping[str, Any], name: str) -> Layout | None:
    """Return the layout that a schema states under ``KEY``, None if it states none.

    Raises InputError for a value that json.dumps would not take, or that gives no JSON.
    """
    if KEY not in schema:
        return None
    value = schema[KEY]
    arguments = {"separators", "indent", "ensure_ascii"}
    if not isinstance(value, dict) or not value.keys() <= arguments:
        raise InputError(
            f"{name}: {KEY} is {value!r:.60}: give an object of separators, indent and ensure_ascii"
        )
    indent = value.get("indent")
    ascii_ = value.get("ensure_ascii")
    if isinstance(indent, int) and not isinstance(indent, bool) and 0 <= indent <= 16:
        indent = " " * indent
    separators = value.get("separators") or _separators(indent)
    good = isinstance(separators, list | tuple) and len(separators) == 2
    good = good and all(isinstance(part, str) for part in separators)
    good = good and bool(_ITEM.fullmatch(separators[0]) and _KEY.fullmatch(separators[1]))
    if not good:
        raise InputError(f'{name}: separators is {separators!r:.60}: give two, such as [",", ":"]')
    if indent is not None and not (isinstance(indent, str) and _INDENT.fullmatch(indent)):
        raise InputError(f"{name}: indent is {indent!r:.60}: give a number of spaces, or null")
    if ascii_ not in (None, True, False) or isinstance(ascii_, int) != isinstance(ascii_, bool):
        raise InputError(f"{name}: ensure_ascii is {ascii_!r:.60}: give true, false or null")
    return Layout(separators[0], separators[1], indent, ascii_)


def tokens(text: str) -> list[str]:
    """Split a JSON text into strings, numbers, names and punctuation, without whitespace."""
    return [match[1] for match in _TOKEN.finditer(text)]


def respelled(
    parts: Sequence[str],
    string: Callable[[str], str] = str,
    number: Callable[[str], str] = str,
) -> list[str]:
    """Apply a function to each string, and one to each number."""

    def spelled(part: str) -> str:
        if part[0] == '"':
            return string(part)
        return number(part) if part[0] in "-0123456789" else part

    return [spelled(part) for part in parts]


def laid_out(parts: Iterable[str], layout: Layout) -> str:
    """Write tokens in a layout, as json.dumps does."""
    return "".join(_written(list(parts), layout))


def _written(parts: list[str], layout: Layout) -> Iterator[str]:
    depth = 0
    for i, part in enumerate(parts):
        after = parts[i + 1] if i + 1 < len(parts) else ""
        if part in _OPENING:
            depth += 1
            yield part + ("" if after in _CLOSING else _line(layout, depth))
        elif part in _CLOSING:
            depth -= 1
            before = parts[i - 1] if i else ""
            yield ("" if before in _OPENING else _line(layout, depth)) + part
        elif part == ",":
            yield layout.item_separator + _line(layout, depth)
        else:
            yield layout.key_separator if part == ":" else part


def _line(layout: Layout, depth: int) -> str:
    return "" if layout.indent is None else "\n" + layout.indent * max(depth, 0)


def layout_in(outputs: Iterable[str]) -> Layout | None:
    """Return the layout of most of the JSON texts in ``outputs``; None without any."""
    items, keys, indents = Counter[str](), Counter[str](), Counter[str | None]()
    ways: list[set[bool]] = []
    some = False
    for text in islice(outputs, _MEASURED):
        if text.lstrip()[:1] not in _OPENING or not _is_json(text):
            continue
        some = True
        _count(text, items, keys, indents)
        ways.append(_ways(text))
    if not some:
        return None
    indent = _most(indents, None)
    key = _most(keys, ": ")
    compact = "," if indent is not None or key == ":" else ", "
    return Layout(_most(items, compact), key, indent, _ascii(ways))


def _most(counts: Counter[Any], default: Any) -> Any:  # noqa: ANN401
    return counts.most_common(1)[0][0] if counts else default


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _count(
    text: str, items: Counter[str], keys: Counter[str], indents: Counter[str | None]
) -> None:
    """Count the separators and indents of one text, each once."""
    before = ""
    opened = False
    seen: set[tuple[int, str | None]] = set()
    counters: tuple[Counter[Any], ...] = (items, keys, indents)
    for match in _TOKEN.finditer(text):
        part, after = match[1], match[2]
        if part == ",":
            seen.add((0, before + part + after.partition("\n")[0]))
        elif part == ":":
            seen.add((1, before + part + after))
        elif part in _OPENING and not opened and text[match.end(2) :][:1] not in _CLOSING:
            opened = True
            seen.add((2, after.rpartition("\n")[2] if "\n" in after else None))
        before = after
    for which, spelling in seen:
        counters[which][spelling] += 1


def _ways(text: str) -> set[bool]:
    """Return the values of ensure_ascii with which json.dumps writes the strings of a text so."""
    strings = [part for part in tokens(text) if part[0] == '"']
    return {
        ascii_
        for ascii_ in (True, False)
        if all(json.dumps(json.loads(part), ensure_ascii=ascii_) == part for part in strings)
    }


def _ascii(ways: Sequence[set[bool]]) -> bool | None:
    """Return the value with which all texts were written, None if none or either will do."""
    common = set.intersection(*ways) if ways else set()
    return common.pop() if len(common) == 1 else None
