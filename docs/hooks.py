"""Hooks of mkdocs: tables in pages are made from the code and from result files.

A fenced block whose language is ``tasc-NAME`` is replaced by the Markdown that the function NAME of
``TABLES`` returns for the text in the block.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from site_tables import commands, exports, methods, results, schema

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

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
    "summary": results.summary,
    "schema": schema.tables,
}
# Pages in the root of the repository, where readers of a checkout expect them.
FROM_ROOT = {"SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}

_BLOCK = re.compile(r"^```tasc-(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def render(markdown: str, page: str) -> str:
    """Return the Markdown of ``page`` with a table in place of each block.

    Tables write ``root:`` before a link that begins at the top of ``docs/``.

    Raises:
        KeyError: a block names an unknown table, or a figure that its file does not contain.
    """
    drawn = _BLOCK.sub(lambda block: TABLES[block[1]](block[2]), markdown)
    return drawn.replace("](root:", "](" + "../" * page.count("/"))


def on_page_markdown(markdown: str, page: "Page", **_: Any) -> str:  # noqa: ANN401
    """Return the page's Markdown with its tables."""
    return render(markdown, page.file.src_uri)


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the pages of the root, the files that hold the results, and the JSON schema."""
    from mkdocs.structure.files import File

    added = {page: ROOT / name for name, page in FROM_ROOT.items()}
    added |= {f"results/data/{path.name}": path for path in sorted(results.FOLDER.glob("*.json"))}
    for name, path in added.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    files.append(File.generated(config, schema.FILE, content=schema.text()))
    return files
