"""Equality of SQL queries, except for spaces, case and a final semicolon."""

import re
from collections.abc import Sequence

import numpy as np

from tasc.benchmark.metrics.metric import right

_QUOTED = re.compile(r"('(?:[^']|'')*'|\"[^\"]*\")")


def count(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Compare queries after ``normalised``."""
    pairs = zip(map(normalised, outputs), map(normalised, references), strict=True)
    return right([a == b for a, b in pairs])


def normalised(query: str) -> str:
    """Lower-case unquoted text, collapse spaces, and drop a final semicolon.

    Spaces around commas, parentheses and comparisons are dropped.
    """
    parts = _QUOTED.split(query.strip().rstrip(";").strip())
    return "".join(part if i % 2 else _plain(part) for i, part in enumerate(parts))


def _plain(text: str) -> str:
    return re.sub(r"\s*(<=|>=|<>|!=|[(),=<>])\s*", r"\1", re.sub(r"\s+", " ", text.lower()))
