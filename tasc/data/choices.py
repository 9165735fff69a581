"""The labels of a task: a file of them, or the values of a column of the data."""

import json
from collections.abc import Sequence
from pathlib import Path

from tasc.data.corpus import read_table
from tasc.data.lines import text_lines
from tasc.data.source import Source
from tasc.errors import InputError


def read_choices(path: Path) -> list[str]:
    """Read a JSON list of labels (.json), or one label per line without empty lines.

    Raises InputError if the file cannot be read, or for no labels, or an empty or repeated one.
    """
    lines = [line.rstrip("\r\n") for line in text_lines(path)]
    labels = [line for line in lines if line.strip()]
    if path.suffix == ".json":
        try:
            labels = json.loads("\n".join(lines))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not valid JSON ({error}): give a list of labels") from None
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise InputError(f"{path} is not a JSON list of texts: give a list of labels")
    check_labels(labels, str(path))
    return labels


def find_choices(choices: str, source: Source, split: str) -> list[str]:
    """Return the labels of a file, or the different values of a column of ``split``, in order."""
    path = Path(choices)
    if path.is_file():
        return read_choices(path)
    try:
        alone = Source(
            source.path, choices, choices, config=source.config, separator=source.separator
        )
        texts = read_table(alone, split).texts(choices)
    except InputError as error:
        raise InputError(
            f"choices {choices!r} is no file and no column ({error}): give one of them"
        ) from None
    labels = [text for text in dict.fromkeys(texts) if text.strip()]
    check_labels(labels, f"column {choices!r}")
    return labels


def check_labels(labels: Sequence[str], what: str = "choices") -> None:
    """Raise InputError for no labels, an empty label, or one that is given twice."""
    if isinstance(labels, str) or not labels:
        raise InputError(f"{what} has no labels: give a list with one or more")
    if not all(label.strip() for label in labels):
        raise InputError(f"{what} has an empty label: remove it")
    if len(set(labels)) < len(labels):
        twice = next(label for i, label in enumerate(labels) if label in labels[:i])
        raise InputError(f"{what} has the label {twice!r:.60} twice: remove one")
