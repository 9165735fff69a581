"""Pages whose tables are generated, between comments that GitHub and the site do not show.

A block begins with ``<!-- begin: NAME … -->`` and ends with ``<!-- end -->``, each at the start of
a line. What follows NAME, on the same line or on more, is the text that the function NAME of
``TABLES`` gets. The function returns the Markdown that stands between the comments.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.layout import layout
from docs.generate import commands, exports, front, methods, results, schema

ROOT = Path(__file__).parents[2]

TABLES: dict[str, Callable[[str], str]] = {
    "commands": commands.overview,
    "options": commands.options,
    "recipes": commands.recipes,
    "methods": methods.drafters,
    "verifiers": methods.verifiers,
    "metrics": methods.metrics,
    "executors": methods.executors,
    "engines": exports.engines,
    "results": results.table,
    "speed": front.speed,
    "summary": front.summary,
    "schema": schema.tables,
}

_BEGIN, _END = "<!-- begin: ", "<!-- end -->"
_BLOCK = re.compile(rf"^({_BEGIN}(\w+)(.*?)-->\n)(.*?)^{_END}$", re.MULTILINE | re.DOTALL)


def generate() -> dict[Path, str]:
    """Return the text that each generated page and each result file should have.

    Result files are laid out anew, as many are copies of what ``tasc bench`` wrote.
    """
    drawn = {path: render(path.read_text(encoding="utf-8"), path) for path in _pages()}
    figures = {
        path: layout(json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(results.FOLDER.glob("*.json"))
    }
    return drawn | figures | {ROOT / schema.FILE: schema.text()}


def outdated() -> dict[Path, str]:
    """Return the files whose text is not what it should be, with that text."""
    return {
        path: text
        for path, text in generate().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def _pages() -> Iterator[Path]:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if _BEGIN in path.read_text(encoding="utf-8"):
            yield path


def render(text: str, path: Path) -> str:
    """Return the text of the page at ``path`` with the current content of each block.

    Tables write ``root:`` before the path of a file in the repository; it becomes a relative link.

    Raises:
        KeyError: a block names an unknown table, or a figure that its file does not contain.
        ValueError: a block does not end.
    """
    blocks = list(_BLOCK.finditer(text))
    begun = re.findall(f"^{_BEGIN}", text, re.MULTILINE)
    if len(blocks) != len(begun) or any(_BEGIN in block[4] for block in blocks):
        raise ValueError(f"{path}: a block does not end: write {_END} on a line after its table")

    def relative(link: re.Match[str]) -> str:
        return "](" + Path(os.path.relpath(ROOT / link[1], path.parent)).as_posix()

    def drawn(block: re.Match[str]) -> str:
        content = re.sub(r"\]\(root:([^)#]+)", relative, TABLES[block[2]](block[3]))
        return f"{block[1]}\n{content}\n\n{_END}"

    return _BLOCK.sub(drawn, text)
