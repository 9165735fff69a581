"""Parts of the generated tables."""

from collections.abc import Iterable, Sequence
from html import escape

from tasc.report.markdown import code, table

__all__ = ["NO_BREAK", "VALUES", "code", "fields", "fold", "table"]

NO_BREAK = "\N{NO-BREAK SPACE}"
VALUES = {int: "integer", float: "number", str: "text", bool: "switch"}  # types of options


def fields(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table whose last column is prose, which a narrow screen shows below the others."""
    return f'<div class="fields" markdown>\n\n{table(head, lines)}\n\n</div>'


def fold(title: str, content: str) -> str:
    """Return ``content``, which a reader unfolds by its title."""
    return f"<details markdown><summary>{escape(title)}</summary>\n\n{content}\n\n</details>"
