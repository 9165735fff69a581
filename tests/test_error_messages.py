"""Every error ends in an action."""

import ast

import pytest

from tests.campaign.verdict import ends_in_an_order
from tests.trees import from_root, parsed, python_files

KINDS = {"InputError", "IntegrityError", "RecipeError", "StorageError", "UnavailableError"}


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
