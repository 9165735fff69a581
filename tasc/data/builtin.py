"""Built-in tasks from the installed Python standard library, without a download.

``builtin:stdlib-tokens``: a statement or short function -> the names of its token types
("NAME OP NAME NEWLINE"), with outputs of low variability. ``builtin:stdlib-docs``: a function
without its docstring -> the docstring's first line, with outputs of high variability. Splits depend
on hashes of the text or module name, so the rows depend only on the Python version.
"""

import ast
import hashlib
import io
import sysconfig
import textwrap
import tokenize
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tasc.data.source import BUILTIN, Source
from tasc.data.table import Table, check_columns, choose_split
from tasc.errors import InputError

SPLITS = ("train", "validation", "test")
_SHARES = (10, 1, 1)  # of the hash range; also thousands of rows of stdlib-tokens
_ROWS_PER_SHARE = 1000
_SNIPPET_CHARS = (8, 160)  # shortest and longest snippet of stdlib-tokens
_SNIPPET_LINES = 6
_FUNCTION_CHARS = (40, 600)
_DOC_CHARS = (10, 120)
# Tests, tables, vendored grammars and demonstrations.
_SKIPPED = frozenset(
    {"test", "tests", "idle_test", "idlelib", "lib2to3", "turtledemo", "encodings"}
    | {"pydoc_data", "ensurepip", "site-packages", "dist-packages", "__pycache__"}
)

Row = tuple[str, str]  # input, output
Rows = dict[str, list[Row]]  # by split
Documented = tuple[str, str, str]  # module, function without docstring, first line of that


def read(source: Source, split: str) -> Table:
    """Return a built-in task's split.

    Raises InputError if the task, split or column does not exist, or Python has no library source.
    """
    task, split = check(source, split)
    rows = task()[split]
    columns = {"input": [row[0] for row in rows], "output": [row[1] for row in rows]}
    wanted = {name: columns[name] for name in source.columns()}
    return Table(split, wanted, lambda position: f"{source.path} ({split}): row {position + 1}")


def check(source: Source, split: str) -> tuple[Callable[[], Rows], str]:
    """Return the function that makes a built-in task's rows, and the name of the split."""
    task = _TASKS.get(source.path.removeprefix(BUILTIN))
    if task is None:
        names = ", ".join(BUILTIN + name for name in _TASKS)
        raise InputError(f"{source.path}: no such built-in task; choose from {names}")
    check_columns(source.path, ("input", "output"), source.columns())
    return task, choose_split(source.path, SPLITS, split)


@cache
def _token_task() -> Rows:
    rows: Rows = {split: [] for split in SPLITS}
    room = dict(zip(SPLITS, (share * _ROWS_PER_SHARE for share in _SHARES), strict=True))
    snippets, _ = _library()
    for snippet in sorted(set(snippets), key=_hash):
        split = _split_of(snippet)
        if len(rows[split]) < room[split]:
            rows[split].append((snippet, token_types(snippet)))
    return rows


@cache
def _docs_task() -> Rows:
    rows: Rows = {split: [] for split in SPLITS}
    seen = set()
    _, documented = _library()
    for module, function, line in documented:
        if function not in seen:
            seen.add(function)
            rows[_split_of(module)].append((function, line))
    return rows


_TASKS: dict[str, Callable[[], Rows]] = {"stdlib-tokens": _token_task, "stdlib-docs": _docs_task}


def token_types(code: str) -> str:
    """Return the names of the token types of ``code``, separated by spaces."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    types = (token.type for token in tokens)
    return " ".join(tokenize.tok_name[kind] for kind in types if kind != tokenize.ENDMARKER)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _split_of(text: str) -> str:
    position = _hash(text) % sum(_SHARES)
    return SPLITS[0] if position < _SHARES[0] else SPLITS[1 + position - _SHARES[0]]


@cache
def _library() -> tuple[list[str], list[Documented]]:
    snippets, documented = list[str](), list[Documented]()
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if not _SKIPPED.isdisjoint(name.parts):
            continue
        lines, tree = _parsed(path)
        for node in _statements(tree.body):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                documented += _documented(name.as_posix(), node, lines)
            snippets += _snippet(node, lines)
    if not snippets:
        raise InputError(f"{root}: no source of the standard library; use a file instead")
    return snippets, documented


def _parsed(path: Path) -> tuple[list[str], ast.Module]:
    """Return the lines and the tree of a module, both empty if it is not valid."""
    try:
        text = path.read_text(encoding="utf-8")
        with warnings.catch_warnings(action="ignore"):  # about invalid escapes
            # Lines like those of ast, which does not split at form feeds.
            return text.split("\n"), ast.parse(text)
    except (SyntaxError, ValueError):
        return [], ast.parse("")


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(node, name, []))
        for handler in getattr(node, "handlers", []):
            yield from _statements(handler.body)


def _snippet(node: ast.stmt, lines: list[str]) -> Iterator[str]:
    """Yield the source of a one-line statement or a short function, except bare strings."""
    first, last = node.lineno, node.end_lineno or node.lineno
    is_function = isinstance(node, ast.FunctionDef)
    value = node.value if isinstance(node, ast.Expr) else None
    is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
    if last - first >= (_SNIPPET_LINES if is_function else 1) or is_text:
        return
    code = textwrap.dedent("\n".join(lines[first - 1 : last]))
    if first == last:
        code = lines[first - 1].encode()[node.col_offset : node.end_col_offset].decode()
    if _SNIPPET_CHARS[0] <= len(code) <= _SNIPPET_CHARS[1] and not code[0].isspace():
        yield code


def _documented(
    module: str, node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]
) -> Iterator[Documented]:
    doc = ast.get_docstring(node)
    if not doc or len(node.body) < 2:
        return
    string = node.body[0]
    if node.body[1].lineno == string.end_lineno or string.lineno == node.lineno:
        return  # the docstring shares a line with code
    rest = lines[node.lineno - 1 : string.lineno - 1] + lines[string.end_lineno : node.end_lineno]
    function = textwrap.dedent("\n".join(rest))
    if not function.startswith(("def ", "async def ")):
        return  # a string without indentation prevented dedenting
    line = doc.splitlines()[0].strip()
    fits = _FUNCTION_CHARS[0] <= len(function) <= _FUNCTION_CHARS[1]
    if fits and not line.startswith(">>>") and _DOC_CHARS[0] <= len(line) <= _DOC_CHARS[1]:
        yield module, function, line
