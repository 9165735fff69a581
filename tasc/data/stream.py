"""Splits read row by row, for corpora larger than memory, whole or in parts."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tasc.data import local
from tasc.data.corpus import ROWS, Corpus, Rows, as_recognised, load
from tasc.data.local import Span
from tasc.data.source import Source
from tasc.files.packaged import sha256

PIECE = 16 << 20  # most bytes or characters that a worker reads at a time
_FEWEST, _SMALLEST = 32, 1 << 18  # number of pieces of a small split, and their least bytes


@dataclass(frozen=True)
class FileStream:
    """The files of a split, or ranges of their lines."""

    source: Source
    split: str
    spans: tuple[Span, ...]
    recognised: str = ""

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the whole files and of the input and output columns."""
        columns = f"{self.source.input_column}\0{self.source.output_column}"
        digest = hashlib.sha256(columns.encode())
        for span in self.spans:
            digest.update(bytes.fromhex(sha256(span.path)))
        return digest.hexdigest()

    def rows(self) -> Iterator[Rows]:
        for table in local.span_tables(self.source, self.split, self.spans, ROWS):
            yield Rows.of(self.source, table)


@dataclass(frozen=True)
class LoadedRows:
    """Rows in memory, which can be sent to another process."""

    loaded: tuple[Rows, ...]

    def rows(self) -> Iterator[Rows]:
        return iter(self.loaded)


# A split that can be read row by row, any number of times. ``rows`` yields the rows in order, some
# at a time, and raises InputError if one is malformed.
Stream = Corpus | FileStream
Piece = FileStream | LoadedRows  # a part of a split, for a worker


def open_stream(source: Source, split: str, *, limit: int | None = None, seed: int = 0) -> Stream:
    """Open a split: local files are streamed; other sources and samples are loaded.

    Arguments and errors are those of ``tasc.data.corpus.load``. Malformed rows of a stream raise
    their error when they are read.
    """
    if limit is not None or not local.is_local(source.path) or source.path.startswith("builtin:"):
        return load(source, split, limit=limit, seed=seed)
    source, how = as_recognised(source, split)
    files, name = local.split_files(source.path, split)
    return FileStream(source, name, tuple(map(Span, files)), how)


def pieces(stream: Stream) -> Iterator[Piece]:
    """Yield the parts of a split for workers. They depend only on the split."""
    lines = {".jsonl", ".ndjson"}  # one row each, and read from any byte
    if isinstance(stream, FileStream) and {s.path.suffix.lower() for s in stream.spans} <= lines:
        total = sum(span.path.stat().st_size for span in stream.spans)
        size = min(max(total // _FEWEST, _SMALLEST), PIECE)
        for begin in range(0, total, size):
            yield _between(stream, begin, min(begin + size, total))
        return
    loaded: list[Rows] = []
    size = 0
    for rows in stream.rows():
        loaded.append(rows.with_prompts())
        size += sum(map(len, (*rows.inputs, *rows.outputs)))
        if size >= PIECE:
            yield LoadedRows(tuple(loaded))
            loaded, size = [], 0
    yield LoadedRows(tuple(loaded))


def _between(stream: FileStream, begin: int, end: int) -> FileStream:
    """Return the lines that begin in a range of bytes of the concatenated files."""
    spans, at = list[Span](), 0
    for span in stream.spans:
        size = span.path.stat().st_size
        low, high = max(begin - at, 0), min(end - at, size)
        if low < high:
            spans.append(Span(span.path, low, high))
        at += size
    return FileStream(stream.source, stream.split, tuple(spans), stream.recognised)
