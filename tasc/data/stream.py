"""A split read in passing, for corpora larger than memory."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tasc.data import local
from tasc.data.corpus import ROWS, Rows, as_recognised, load
from tasc.data.source import Source
from tasc.errors import InputError


class Stream(Protocol):
    """What can be read in passing, as often as wanted; a Corpus in memory can, too."""

    @property
    def source(self) -> Source:
        """Where the rows come from."""

    @property
    def split(self) -> str:
        """The split's name."""

    @property
    def fingerprint(self) -> str:
        """Hash of what the split holds."""

    @property
    def recognised(self) -> str:
        """In a few words how columns were read that nobody named; empty elsewhere."""

    def rows(self) -> Iterator[Rows]:
        """Read the split, some rows at a time, in its order."""


@dataclass(frozen=True)
class FileStream:
    """The files of a split. ``fingerprint`` is of their bytes and of the columns that are read."""

    source: Source
    split: str
    fingerprint: str
    recognised: str = ""

    def rows(self) -> Iterator[Rows]:
        """See Stream.rows.

        Raises:
            InputError: a row is malformed, the split is empty, or all outputs are.
        """
        read = kept = 0
        for table in local.tables(self.source, self.split, ROWS):
            rows = Rows.of(self.source, table)
            read += table.length
            kept += len(rows.outputs)
            yield rows
        if not kept:
            found = (
                f"all {read} outputs of the split {self.split!r} are" if read else "the split is"
            )
            raise InputError(
                f"{self.source.path}: {found} empty (column {self.source.output_column!r}); "
                "choose another split or output column"
            )


def open_stream(source: Source, split: str, *, limit: int | None = None, seed: int = 0) -> Stream:
    """Open a split: local files are read in passing, anything else and any sample is loaded.

    Args and errors are those of ``tasc.data.corpus.load``; faulty rows are met while reading.
    """
    if limit is not None or not local.is_local(source.path) or source.path.startswith("builtin:"):
        return load(source, split, limit=limit, seed=seed)
    source, how = as_recognised(source, split)
    files, name = local.split_files(source.path, split)
    return FileStream(source, name, _fingerprint(source, files), how)


def _fingerprint(source: Source, files: Sequence[Path]) -> str:
    digest = hashlib.sha256("\0".join([source.input_column, source.output_column]).encode())
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
