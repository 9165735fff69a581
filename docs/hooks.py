"""What mkdocs calls while it builds the site: tables that pages ask for are made from the code.

A page asks with a fenced block whose language is ``tasc-`` and a name of ``TABLES``; what stands in
the block is given to that function, which returns Markdown.
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
    "schema": schema.tables,
}
# Pages that stand in the root of the repository, where their readers look for them.
FROM_ROOT = {"SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}

_BLOCK = re.compile(r"^```tasc-(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def render(markdown: str, page: str) -> str:
    """Return a page, whose name is ``page``, with tables instead of the blocks that ask for them.

    Tables write ``root:`` before a link that begins at the top of ``docs/``.

    Raises:
        KeyError: a block names a table that is none, or a figure that its file does not hold.
    """
    made = _BLOCK.sub(lambda found: TABLES[found[1]](found[2]), markdown)
    return made.replace("](root:", "](" + "../" * page.count("/"))


def on_page_markdown(markdown: str, page: "Page", **_: Any) -> str:  # noqa: ANN401
    """See ``render``."""
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
