"""Build the corpus index on disk, from outputs that may exceed memory.

The text is written first. The index is then built in pieces: all contexts that end with a certain
range of tokens. Each piece scans the text once and sorts in bounded memory. Once all pieces are in
the file and their places known, each continuation is given its context.
"""

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, BinaryIO

import numpy as np

from tasc._native import NgramBuilder, NgramIndex, pack_text, place_entries
from tasc.data.corpus import refuse_empty
from tasc.data.stream import Stream
from tasc.decoding.drafters.ngram.index import (
    BLOCK_HEADER,
    FILE,
    HEADER,
    check_ids,
    file_header,
    load_index,
    outputs_of,
    save_index,
)
from tasc.decoding.drafters.ngram.options import Counts, IndexOptions
from tasc.errors import InputError
from tasc.execution import in_order
from tasc.files.disk import writing
from tasc.progress import Progress, silent
from tasc.report.record import Report, Reported
from tasc.tokenizer.chat import ChatTemplate
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer

_TEXTS, _CHARACTERS = 1 << 16, 1 << 24  # limits of a batch to encode
_CHUNK = 1 << 20  # words or tokens to copy at a time
Piece = tuple[np.ndarray, np.ndarray, np.ndarray]  # entries, contexts, and contexts by token
_MARKS = ("does not mark where outputs begin", "marks where outputs begin")


class IndexFile:
    """An index under construction in the file ``path``: add texts, then finish."""

    def __init__(self, path: Path, tokenizer: LoadedTokenizer, counts: Counts) -> None:
        self.path, self.tokenizer, self.counts = path, tokenizer, counts
        self.tokens = self.texts = 0  # without marks and end tokens
        self._packed = 0  # size of the text in bytes
        path.write_bytes(bytes(HEADER.size + BLOCK_HEADER))

    def add(self, texts: Encoded) -> None:
        """Add texts, with the end token after each. Raises InputError if an id is too large."""
        check_ids(texts.tokens, self.tokenizer.eos_id)
        tokens = texts.tokens.astype(np.int32, copy=False)
        self._append(pack_text(tokens, texts.offsets, self.tokenizer.eos_id, self.counts.mark))
        self.tokens, self.texts = self.tokens + len(tokens), self.texts + len(texts.offsets) - 1

    def add_index(self, folder: Path) -> None:
        """Add the texts of a saved index.

        Raises InputError if it has another end token or other marks, and errors of ``load_index``.
        """
        index = load_index(folder, self.tokenizer)
        if (index.mark, index.end) != (self.counts.mark, self.tokenizer.eos_id):
            raise InputError(
                f"{folder} {_MARKS[index.mark]} and ends them with token {index.end}, but this "
                f"index {_MARKS[self.counts.mark]} and ends them with token "
                f"{self.tokenizer.eos_id}: make it again with tasc index"
            )
        with (folder / FILE).open("rb") as file:
            file.seek(HEADER.size + BLOCK_HEADER)
            for begin in range(0, index.tokens, _CHUNK):
                packed = file.read(3 * min(_CHUNK, index.tokens - begin))
                self._append(np.frombuffer(packed, np.uint8))
        self.texts += outputs_of(index)
        self.tokens = self._packed // 3 - self.texts * (1 + self.counts.mark)

    def _append(self, packed: np.ndarray) -> None:
        with self.path.open("ab") as file:
            file.write(packed.data)
        self._packed += len(packed)

    def finish(self, memory: int, progress: Progress = silent) -> None:
        """Count in about ``memory`` bytes, or more if one token's positions take more to sort.

        Raises InputError if the corpus has more n-grams than an index can hold.
        """
        try:
            self._finish(memory, progress)
        except ValueError as error:
            raise InputError(
                f"{error}: make an index of each part of the data, and repeat --index for them"
            ) from None

    def _finish(self, memory: int, progress: Progress) -> None:
        text = np.asarray(np.memmap(self.path, np.uint8, "r", HEADER.size + BLOCK_HEADER))
        o, end = self.counts, self.tokenizer.eos_id
        builder = NgramBuilder(text, end, o.n_max, o.discount, o.strength, o.p_min, o.mark)
        if builder.vocabulary > len(self.tokenizer.vocabulary()):
            raise InputError(
                f"the texts contain tokens that {self.tokenizer.path} lacks: "
                "make the merged indexes again with tasc index"
            )
        pieces = _pieces(builder, memory, progress)
        with self.path.open("r+b") as file, TemporaryFile(dir=self.path.parent) as nodes:
            file.seek(-(self._packed + 1) % 8 + 1, os.SEEK_END)
            header = _write_pieces(file, nodes, builder, pieces)
            nodes.seek(0)
            file.seek(0, os.SEEK_END)
            shutil.copyfileobj(nodes, file, 8 * _CHUNK)
            words = file.tell() - HEADER.size
            file.seek(0)
            file.write(file_header(words // 8, self.tokenizer))
            file.write(header.data)


def _write_pieces(
    file: BinaryIO, nodes: IO[bytes], builder: NgramBuilder, pieces: Iterator[Piece]
) -> np.ndarray:
    """Write continuations to ``file`` and contexts to ``nodes``; return the block's header."""
    first = file.truncate()  # p_min may leave nothing to write there
    written: list[tuple[int, np.ndarray]] = []  # entries, and contexts by token, of each piece
    contexts = entries = 0
    for continuations, lists, counted in pieces:
        file.write(continuations.data)
        nodes.write((lists + np.uint64(entries)).data)
        contexts, entries = contexts + len(lists), entries + len(continuations)
        written.append((len(continuations), counted))
    nodes.write(np.uint64(entries).tobytes())  # ends the last list
    _place(file, first, builder, written)
    return builder.header(contexts, entries)


def _pieces(builder: NgramBuilder, memory: int, progress: Progress) -> Iterator[Piece]:
    yield builder.root()
    borders = builder.borders(max(memory // builder.position_bytes, 1))
    for number, (begin, end) in enumerate(pairwise(borders)):
        progress("count", number, len(borders) - 1)
        yield builder.piece(begin, end)


def _place(
    file: BinaryIO, first: int, builder: NgramBuilder, pieces: Sequence[tuple[int, np.ndarray]]
) -> None:
    """Link the continuations of all pieces, which begin at ``first`` in ``file``, to contexts."""
    starts = builder.starts(np.sum([counted for _, counted in pieces], axis=0, dtype=np.uint32))
    before, at = starts.copy(), first
    for entries, counted in pieces:
        for begin in range(0, entries, _CHUNK):
            size = 8 * min(_CHUNK, entries - begin)
            file.seek(at)
            block = np.frombuffer(bytearray(file.read(size)), np.uint64)
            place_entries(block, starts, before)
            file.seek(at)
            at += file.write(block.data)
        before += counted


class IndexReport(Report):
    """The counts of an index and its size."""

    source: str
    split: str
    outputs: int
    tokens: int
    contexts: int
    continuations: int
    bytes: int
    bytes_per_token: float
    build_seconds: float
    counts: Counts


@dataclass(frozen=True, eq=False)
class Indexed(Reported):
    """A counted corpus in a memory-mapped file, with its figures."""

    index: NgramIndex
    path: Path
    tokenizer: LoadedTokenizer
    report: IndexReport

    def save(self, folder: Path) -> None:
        """Move the file for ``tasc bench --index`` to ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():  # its temporary folder is gone, but the mapping is still valid
            save_index(self.index, self.tokenizer, folder)
            return
        with writing(folder / FILE):
            shutil.move(self.path, folder / FILE)


def make_index(
    stream: Stream,
    tokenizer: LoadedTokenizer,
    options: IndexOptions,
    work: Path,
    progress: Progress = silent,
) -> Indexed:
    """Index the outputs of ``options.merge`` and of a split, in this order, in a file in ``work``.

    Raises InputError without outputs, or if an index to merge does not match, and StorageError if
    the disk of ``work`` is full.
    """
    is_templated = stream.source.chat and not stream.source.names("template")
    template = ChatTemplate.of(tokenizer) if is_templated else None
    tokenizer = tokenizer.ending(template.end if template else None)
    folder = work / "index.tmp"  # always started anew
    folder.mkdir(exist_ok=True)
    with writing(folder):
        file = IndexFile(folder / FILE, tokenizer, options.rules)
        for merged in options.merge:
            file.add_index(Path(merged))
        with options.start(tokenizer) as executor:
            encoded = executor.run(LoadedTokenizer.encode, _batches(stream, template))
            for texts in in_order(encoded):
                file.add(texts)
                progress("encode", file.texts, 0)
        begin = time.perf_counter()
        file.finish(int(options.memory * 2**30), progress)
    seconds = time.perf_counter() - begin
    index = load_index(folder, tokenizer)
    size = HEADER.size + index.block.nbytes
    report = IndexReport(
        source=options.source.path,
        split=stream.split,
        outputs=file.texts,
        tokens=file.tokens,
        contexts=index.contexts,
        continuations=index.entries,
        bytes=size,
        bytes_per_token=size / max(file.tokens, 1),
        build_seconds=seconds,
        counts=options.rules,
    )
    return Indexed(index, file.path, tokenizer, report)


def _batches(stream: Stream, template: ChatTemplate | None) -> Iterator[list[str]]:
    batch: list[str] = []
    size = samples = dropped = 0
    for rows in stream.rows():
        outputs = [template.write(turn)[1] for turn in rows.turns] if template else rows.outputs
        batch += outputs
        size += sum(map(len, outputs))
        samples, dropped = samples + len(outputs), dropped + rows.dropped
        if len(batch) >= _TEXTS or size >= _CHARACTERS:
            yield batch
            batch, size = [], 0
    refuse_empty(stream.source, stream.split, samples, dropped)
    if batch:
        yield batch
