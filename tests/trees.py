"""The Python source of the project, for tests that read it instead of running it."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]


def python_files(*tops: str) -> list[Path]:
    """Return the Python files below folders of the project, in order, and files among ``tops``."""
    paths = [ROOT / top for top in tops]
    return [path for path in paths if path.is_file()] + [
        file for path in paths for file in sorted(path.rglob("*.py"))
    ]


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def from_root(path: Path) -> str:
    """Return the path of a file as seen from the root of the project."""
    return str(path.relative_to(ROOT))
