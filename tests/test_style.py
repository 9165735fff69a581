"""The text of code and pages is plain English, and names that were replaced stay replaced."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trees import ROOT, from_root

FOLDERS = {
    "tasc": (".py", ".html"),
    "cli": (".py",),
    "benchmarks": (".py",),
    "tests": (".py",),
    "docs": (".py", ".md"),
    "recipes": (".yaml",),
}
TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "mkdocs.yml", "pyproject.toml")
# The diary is an archive; the tests quote the phrases that they reject.
EXEMPT = {"docs/lab/diary.md", "tests/test_docs.py", "tests/test_style.py"}

PHRASES = {
    "a rate has 'per'": (
        r"\b(?:tokens?|nodes|seconds|milliseconds|microseconds|ms|µs|bytes|bits|forwards|requests"
        r"|GiB|MiB|MB|GB|steps|\d) an? "
        r"(?:step|second|minute|hour|token|draft|forward|sample|output|node|request|process|prompt"
        r"|position|core|thread|sequence|processor second|device|replica)\b"
    ),
    "clauses as nouns": (
        r"\bthose of (?:the|a|an|all|each|every|its|their|whole)\b"
        r"|\bwhat (?:it|they|that|this|a \w+|the \w+|an \w+|each) (?:costs?|takes?|is worth|adds)\b"
        r"|\bhow many there are\b|\bthat which\b|\bone that is none\b"
    ),
    "programs print and store; they do not tell": (
        r"\b(?:is|are|was|were|be|been|being) told\b(?! apart)|\b(?:command|bench|file|line|engine"
        r"|server|manifest|page|report|table) (?:tells|says)\b"
        r"|\bstands? (?:beside|aside|behind|in front of|below|above)\b|\bstood beside\b"
    ),
    "history": r"\bany more\b|\bas it (?:was|used to be) before\b|\bno more so\b",
    "machines are idle or loaded": (
        r"\bquiet machine\b|\bbusy machine\b|\bbeside other work\b|\bnothing (?:else )?beside it\b"
    ),
    "one or two words for it": (
        r"\bat home\b|\bbring(?:s)? themselves\b|\bhangs? on\b|\bso many (?:tokens|nodes|epochs"
        r"|milliseconds|seconds|rows|steps)\b|\bby turns\b|\bas it stands\b|\bas they stand\b"
        r"|\bnobody (?:wrote|knows|passes|named|asks|else)\b|\bin passing\b|\bno \w+ any\b"
    ),
}
# Names of classes, methods and hooks that have another name now.
RETIRED = {
    *("Spends", "TellsSources", "LiveCost", "StepCost", "CostCurve", "Guard", "Asking", "AtHome"),
    *("Kept", "SampleView", "Written", "Decoded", "read_logits", "looks", "looked"),
    *("_Seen", "live_cost", "CHECKOUT"),
}


def files() -> Iterator[Path]:
    for folder, endings in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in endings and from_root(path) not in EXEMPT:
                yield path
    yield from (ROOT / name for name in TOP)


def unwrapped(text: str) -> str:
    """Return ``text`` with its lines joined, whether they are prose, comments or strings."""
    return re.sub(r"\s*\n\s*(?:#\s|\|\s)?\s*|\s+", " ", re.sub(r'"\s*\n\s*f?r?"', "", text))


def phrases(text: str) -> Iterator[str]:
    """Yield each phrase that is not plain English, with what is wrong and some context."""
    plain = unwrapped(text)
    for reason, pattern in PHRASES.items():
        for found in re.finditer(pattern, plain):
            yield f"{reason}: …{plain[max(0, found.start() - 30) : found.end() + 20]}…"


def names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.alias):
            yield node.name


def references(tree: ast.AST) -> Iterator[str]:
    """Yield the docstrings that only point to another one."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        if text and re.fullmatch(r"See (?:also )?[`\w.:/ ]+\.", text):
            yield text


def faults(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    found = list(phrases(text))
    if path.suffix == ".py":
        tree = ast.parse(text)
        found += [f"a docstring stands alone: {line}" for line in references(tree)]
        found += [f"retired name: {name}" for name in sorted({*names(tree)} & RETIRED)]
    return found


@pytest.mark.parametrize("path", [*files()], ids=from_root)
def test_text_is_plain_english(path):
    found = faults(path)
    assert not found, "\n".join(found)
