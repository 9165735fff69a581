"""A split read in passing, for corpora larger than memory."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from tasc.data import local
from tasc.data.corpus import Corpus, Words, load
from tasc.data.source import Source
from tasc.data.table import Table
from tasc.errors import InputError

ROWS = 1024  # read at a time


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a split, those with an empty output left out.

    Attributes:
        inputs: as text.
        outputs: as text.
        prompt: writes the prompt of row i; few are asked for.
        input_words: words of the inputs when that column holds lists, else None.
        output_words: likewise for the outputs.
        dropped: rows left out.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    prompt: Callable[[int], str]
    input_words: Sequence[Words] | None = None
    output_words: Sequence[Words] | None = None
    dropped: int = 0


class Stream(Protocol):
    """What can be read in passing, as often as wanted."""

    @property
    def source(self) -> Source:
        """Where the rows come from."""

    @property
    def split(self) -> str:
        """The split's name."""

    @property
    def fingerprint(self) -> str:
        """Hash of what the split holds."""

    def rows(self) -> Iterator[Rows]:
        """Read the split, some rows at a time, in its order."""


@dataclass(frozen=True)
class Held:
    """A corpus in memory as a stream."""

    corpus: Corpus

    @property
    def source(self) -> Source:
        """See Stream.source."""
        return self.corpus.source

    @property
    def split(self) -> str:
        """See Stream.split."""
        return self.corpus.split

    @property
    def fingerprint(self) -> str:
        """See Stream.fingerprint."""
        return self.corpus.fingerprint

    def rows(self) -> Iterator[Rows]:
        """See Stream.rows."""
        c = self.corpus
        for start in range(0, len(c.examples), ROWS):
            part = slice(start, start + ROWS)
            examples = c.examples[part]
            prompts = [example.prompt for example in examples]
            yield Rows(
                [example.input for example in examples],
                [example.output for example in examples],
                prompts.__getitem__,
                None if c.listed_inputs is None else c.listed_inputs[part],
                None if c.listed_outputs is None else c.listed_outputs[part],
                0 if start else c.dropped,
            )


@dataclass(frozen=True)
class Files:
    """The files of a split. ``fingerprint`` is of their bytes and of the columns that are read."""

    source: Source
    split: str
    fingerprint: str

    def rows(self) -> Iterator[Rows]:
        """See Stream.rows.

        Raises:
            InputError: a row is malformed, the split is empty, or all outputs are.
        """
        read = kept = 0
        for table in local.tables(self.source, self.split, ROWS):
            rows = _rows(self.source, table)
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
        return Held(load(source, split, limit=limit, seed=seed))
    files, name = local.split_files(source.path, split)
    return Files(source, name, _fingerprint(source, files))


def _rows(source: Source, table: Table) -> Rows:
    texts = cache(table.texts)
    inputs, outputs = texts(source.input_column), texts(source.output_column)
    listed = table.words(source.input_column), table.words(source.output_column)
    kept = [place for place, text in enumerate(outputs) if text.strip()]

    def prompt(row: int) -> str:
        columns = {name: texts(name)[kept[row]] for name in source.columns()}
        return source.prompt(columns[source.input_column], columns)

    return Rows(
        [inputs[i] for i in kept],
        [outputs[i] for i in kept],
        prompt,
        None if listed[0] is None else [listed[0][i] for i in kept],
        None if listed[1] is None else [listed[1][i] for i in kept],
        len(outputs) - len(kept),
    )


def _fingerprint(source: Source, files: Sequence[Path]) -> str:
    digest = hashlib.sha256("\0".join([source.input_column, source.output_column]).encode())
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
