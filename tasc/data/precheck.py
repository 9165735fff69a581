"""What can be said of a source before any of it is read, and from one row of a file of lines."""

from pathlib import Path

from tasc.data import builtin, local
from tasc.data.source import BUILTIN, Source


def precheck(source: Source, split: str) -> None:
    """Refuse a built-in task, a file, a split or a column that does not exist.

    Says nothing of what is on the Hub; of columns only where a file has a row a line.

    Raises:
        InputError: as ``tasc.data.corpus.load`` would.
    """
    if source.path.startswith(BUILTIN):
        builtin.check(source, split)
    elif local.is_local(source.path):
        files, split = local.split_files(source.path, split)
        if Path(files[0]).suffix.lower() in (".jsonl", ".ndjson"):
            next(local.tables(source, split, 1), None)
