"""What tables of the site are made of."""

from collections.abc import Iterable, Sequence

from tasc.report.markdown import code, table

__all__ = ["VALUES", "code", "fields", "table"]

VALUES = {int: "integer", float: "number", str: "text", bool: "switch"}  # what an option takes


def fields(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table whose last column is prose: on a narrow screen it is below the others."""
    return f'<div class="fields" markdown>\n\n{table(head, lines)}\n\n</div>'
