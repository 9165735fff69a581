"""Tables in Markdown."""

from collections.abc import Iterable, Sequence

VALUES = {int: "integer", float: "number", str: "text", bool: "switch"}  # what an option takes


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table; a vertical bar in a cell stays a character of it."""
    drawn = [head, ["---"] * len(head), *lines]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |"
        for line in drawn
    )


def code(value: object) -> str:
    """Return ``value`` as code, nothing for nothing."""
    text = str(value).replace("\n", "\\n")
    return f"`{text}`" if text else ""
