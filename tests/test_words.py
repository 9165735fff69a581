"""Help, errors, pages and public names use the terms of the field; an error ends in an action."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.campaign.verdict import ends_in_an_order
from tests.cli import COMMANDS
from tests.test_docs import PRIVATE
from tests.trees import ROOT, from_root, parsed, python_files

KINDS = {"InputError", "IntegrityError", "RecipeError", "StorageError", "UnavailableError"}
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
    return {found[0].lower() for found in PRIVATE.finditer(text)} - KEPT


def helps() -> Iterator[tuple[str, str]]:
    for name, command in COMMANDS.items():
        yield name, command.help or ""
        for parameter in command.params:
            yield f"{name} {parameter.name}", getattr(parameter, "help", None) or ""


def literal(node: ast.expr) -> str | None:
    """Return a message as it is written, X for what is put in; None for one made elsewhere."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
    return None


def messages() -> list[tuple[str, str]]:
    found = []
    for path in python_files("tasc", "cli"):
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            text = literal(node.args[0]) if node.func.id in KINDS and node.args else None
            if text is not None:
                found.append((f"{from_root(path)}:{node.lineno}", text))
    return found


def test_help_and_errors_use_the_terms_of_the_field():
    assert not {where: text for where, text in [*helps(), *messages()] if private(text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_report_uses_the_terms_of_the_field(page):
    text = re.sub(r"{[{%#].*?[}%#]}|<style>.*?</style>|<[^>]*>", " ", page.read_text(), flags=re.S)
    assert not private(text)


def public(tree: ast.AST) -> Iterator[str]:
    """Yield the public names of a module: classes, functions, parameters, fields, constants."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("_") or node.name == "__init__":
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                yield from (node.name, *(a.arg for a in taken))
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
            yield from public(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name))


@pytest.mark.parametrize("path", python_files("tasc", "cli"), ids=from_root)
def test_public_names_use_the_terms_of_the_field(path):
    names = {path.stem, *public(parsed(path))}
    parts = {
        name: {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
        for name in names
        if not name.startswith("_")
    }
    bad = {n for n, of in parts.items() if any(NAMES.fullmatch(p) for p in of)}
    assert not bad


def test_every_error_ends_in_an_action():
    found = messages()
    assert len(found) > 200
    bad = {w: text for w, text in found if not text.endswith("X") and not ends_in_an_order(text)}
    assert not bad


@pytest.mark.parametrize(
    "text",
    [
        "give a file: there is none",
        "no split 'test': it has train, validation",
        "the type is not known, name it has none",
        "model x: set in config.json and read by no one: a number was expected",
        "use --merge; it is not a folder that tasc wrote",
        "X must be one of 'give', 'take'",
        "",
    ],
)
def test_a_message_that_ends_in_what_was_seen_is_found_out(text):
    assert not ends_in_an_order(text)


def test_an_order_may_hold_what_looks_like_its_end():
    assert ends_in_an_order('no chat: write a list of {"role": "user", "content": "it: is"}')
    assert ends_in_an_order("no such step; see 'a: b', or leave it out")
