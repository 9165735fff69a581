"""Markdown: text of others stands in code, where it steers neither the page nor a terminal."""

import re
from collections.abc import Iterable, Sequence

from tasc.visible import visible_line


def code(value: object) -> str:
    """Return ``value`` as code in a line, nothing for nothing."""
    text = visible_line(str(value))
    fence = _fence(text, 1)
    room = " " if len(fence) > 1 or text.startswith(" ") else ""  # which Markdown takes off again
    return f"{fence}{room}{text}{room}{fence}" if text else ""


def block(language: str, text: str) -> str:
    """Return a block of code."""
    fence = _fence(text, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def _fence(text: str, least: int) -> str:
    """Return more backticks than ``text`` has in a row."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


# A number, a range of them, or a number with its range in brackets, each maybe with a sign behind;
# a dash or nothing where there is none.
_NUMBER = r"[-+−]?[\d.,]+ ?[%×]?"
_SPACE = re.compile(r"[^\S\xa0]+")  # any but the no-break space
_FIGURE = re.compile(rf"{_NUMBER}( (–|to|±) {_NUMBER}| \({_NUMBER}\sto\s{_NUMBER}\))?|[–—-]?")


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table; a vertical bar in a cell stays a character of it.

    Columns of figures end at the right.
    """
    lines = list(lines)
    rule = [
        "---:" if lines and all(map(_FIGURE.fullmatch, column)) and any(column) else "---"
        for column in zip(*lines, strict=True)
    ]
    drawn = [head, rule or ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in drawn)


def _cell(text: str) -> str:
    return _SPACE.sub(" ", text).strip(" ").replace("|", "\\|")
