"""Help, errors, report pages and public names use the terms of the field, as the site does."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tasc_cli.main import app
from typer.main import get_command

from tests.test_docs import PRIVATE
from tests.test_error_lines import messages

ROOT = Path(__file__).parents[1]
FILES = sorted([*(ROOT / "tasc").rglob("*.py"), *(ROOT / "cli").rglob("*.py")])
PAGES = sorted((ROOT / "tasc").rglob("*.html"))
# Words that public names must not contain. "rules", "risk", "row", "output", "reader" and "rows"
# have their everyday meaning in data and tables, so they are not among them.
NAMES = re.compile(
    r"laws?|walks?|walked|settle[sd]?|speakers?|partners?|spoken|said|outcomes|spell(ed|ings?)"
    r"|fore(tell|told|see|seen|casts?)|lived|replays?|climb|knees?|scaffolds?|dead|standing|screen"
    r"|blanks?|borrow(s|ed)?|watched|places?|labelled|spectrum|valuable"
)
# The paper's name for the number of new tokens, and rows of tables.
KEPT = {"budget", "budgets", "row", "rows"}


def private(text: str) -> set[str]:
    """Return the private words in ``text``."""
    return {found[0].lower() for found in PRIVATE.finditer(text)} - KEPT


def helps() -> Iterator[tuple[str, str]]:
    """Yield the help of every command and option."""
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        yield name, command.help or ""
        for parameter in command.params:
            yield f"{name} {parameter.name}", getattr(parameter, "help", None) or ""


@pytest.mark.parametrize(("where", "text"), [*helps()], ids=[where for where, _ in helps()])
def test_help_uses_the_terms_of_the_field(where, text):
    assert not private(text), text


@pytest.mark.parametrize(("where", "text"), messages(), ids=[where for where, _ in messages()])
def test_an_error_uses_the_terms_of_the_field(where, text):
    assert not private(text), text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_report_uses_the_terms_of_the_field(page):
    text = re.sub(r"{[{%#].*?[}%#]}|<style>.*?</style>|<[^>]*>", " ", page.read_text(), flags=re.S)
    assert not private(text)


def public(tree: ast.AST, names: bool = True) -> Iterator[str]:
    """Yield the public names of a module: classes, functions, parameters, fields, constants."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("_") or node.name == "__init__":
                yield node.name
                yield from (
                    a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                )
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
            yield from public(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_names_use_the_terms_of_the_field(path):
    names = {path.stem, *public(ast.parse(path.read_text(encoding="utf-8")))}
    parts = {
        name: {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
        for name in names
        if not name.startswith("_")
    }
    bad = {n for n, of in parts.items() if any(NAMES.fullmatch(p) for p in of)}
    assert not bad
