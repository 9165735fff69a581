"""Every error that a user can meet ends in what to do."""

import ast
from pathlib import Path

import pytest

from tests.campaign.verdict import ends_in_an_order

ROOT = Path(__file__).resolve().parents[1]
KINDS = {"InputError", "IntegrityError", "RecipeError", "StorageError", "UnavailableError"}


def literal(node: ast.expr) -> str | None:
    """Return a message as it is written, X for what is put in; None for one made elsewhere."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
    return None


def messages() -> list[tuple[str, str]]:
    """Return where each error is raised, and its text."""
    found = []
    for path in sorted([*(ROOT / "tasc").rglob("*.py"), *(ROOT / "cli").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            text = literal(node.args[0]) if node.func.id in KINDS and node.args else None
            if text is not None:
                found.append((f"{path.relative_to(ROOT)}:{node.lineno}", text))
    return found


def test_there_are_messages_to_read():
    assert len(messages()) > 200


@pytest.mark.parametrize(("where", "text"), messages(), ids=[where for where, _ in messages()])
def test_an_error_ends_in_an_action(where, text):
    assert text.endswith("X") or ends_in_an_order(text), text


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
