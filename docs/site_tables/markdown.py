"""Parts of the site's tables."""

from collections.abc import Iterable, Sequence

from tasc.report.markdown import code, table

__all__ = ["VALUES", "code", "fields", "table"]

VALUES = {int: "integer", float: "number", str: "text", bool: "switch"}  # types of options


def fields(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table whose last column is prose, which a narrow screen shows below the others."""
    return f'<div class="fields" markdown>\n\n{table(head, lines)}\n\n</div>'
