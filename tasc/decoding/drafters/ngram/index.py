"""The corpus index: built from outputs, saved as one file, mapped and shared by processes.

The file is a header of 128 bytes (magic, version, words, SHA-256 of the block, SHA-256 of the
tokenizer) and the block that the native index drafts from, little-endian.
"""

import hashlib
import struct
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasc._native import NgramIndex
from tasc.data.corpus import Corpus
from tasc.decoding.drafters.ngram.options import Counts, IndexOptions
from tasc.errors import InputError, IntegrityError
from tasc.execution import in_order
from tasc.files.disk import writing
from tasc.tokenizer.loaded import LoadedTokenizer

FILE = "index.tasc"
MAGIC, VERSION = b"TASCNGRM", 1
HEADER = struct.Struct("<8sIIQ32s32s40x")  # magic, version, 0, words of the block, two hashes

_PIECE = 1 << 16  # texts that are encoded at a time
TOKEN_LIMIT = 0xFFFFF  # ids are kept in 20 bits, the largest of which is the mark


def build_index(outputs: Sequence[np.ndarray], end: int, options: Counts) -> NgramIndex:
    """Count the n-grams of ``outputs``, each (T_i,) int32, the ``end`` token after each.

    Raises:
        InputError: there are no outputs, or a token id does not fit the index.
    """
    if not len(outputs):
        raise InputError("the corpus has no outputs to count n-grams in: give some")
    tokens = np.concatenate(outputs).astype(np.int32, copy=False)
    largest = max(int(tokens.max(initial=0)), end)
    if largest >= TOKEN_LIMIT:
        raise InputError(f"an index holds token ids below {TOKEN_LIMIT}, the corpus has {largest}")
    offsets = np.cumsum([0, *map(len, outputs)], dtype=np.int64)
    o = options
    return NgramIndex(tokens, offsets, end, o.n_max, o.discount, o.strength, o.p_min, o.mark)


def indexed_outputs(index: NgramIndex) -> list[np.ndarray]:
    """Return the outputs (T_i,) int32 that ``index`` was counted from, without their end tokens."""
    text = index.text()
    parts = np.split(text, np.flatnonzero(text == index.end) + 1)[:-1]
    return [part[int(index.mark) : -1] for part in parts]


def save_index(index: NgramIndex, tokenizer: LoadedTokenizer, folder: Path) -> Path:
    """Write ``index``, whose tokens are ``tokenizer``'s, into ``folder``; return the file."""
    block = index.block
    path = folder / FILE
    checksum = _checksum(block)
    with writing(path, HEADER.size + block.nbytes), path.open("wb") as file:
        file.write(HEADER.pack(MAGIC, VERSION, 0, len(block), checksum, tokenizer.identity))
        file.write(block.data)  # numpy's own way does not say what the system refused
    return path


def _checksum(block: np.ndarray) -> bytes:
    return hashlib.sha256(block.view(np.uint8).data).digest()


def load_index(folder: Path, tokenizer: LoadedTokenizer) -> NgramIndex:
    """Map the index in ``folder``; processes that map the same file share its memory.

    The checksum finds accidents. Anybody can write one that fits, and nothing here asks the
    manifest beside the file: it is the native index that checks every reference in the block, so
    that drafting from a forged one stays inside it and names tokens of the vocabulary only. A file
    that changes while it is mapped is not checked again: artefacts are replaced, never rewritten.

    Raises:
        InputError: there is none, or it was made with another tokenizer or version.
        IntegrityError: the file is truncated or damaged.
    """
    path = folder / FILE
    try:
        with path.open("rb") as file:
            head = file.read(HEADER.size)
    except OSError as error:
        raise InputError(
            f"{folder} holds no index ({error.strerror}): make one with tasc index"
        ) from error
    if head[: len(MAGIC)] != MAGIC:
        raise InputError(f"{path} is not an index of tasc: make one with tasc index")
    if len(head) < HEADER.size:
        raise IntegrityError(f"{path} is truncated: make it again with tasc index")
    _, version, _, words, checksum, owner = HEADER.unpack(head)
    if version != VERSION:
        raise InputError(
            f"{path} has format {version}, this version reads {VERSION}: make it again"
        )
    expected = HEADER.size + 8 * words
    if path.stat().st_size != expected:
        raise IntegrityError(
            f"{path} should have {expected} bytes, it has {path.stat().st_size}: make it again"
        )
    if owner != tokenizer.identity:
        raise InputError(
            f"{path} was made with another tokenizer than {tokenizer.path}: "
            f"make one with tasc index --tokenizer {tokenizer.path}"
        )
    block = np.memmap(path, np.uint64, "r", HEADER.size, (words,))
    if _checksum(block) != checksum:
        raise IntegrityError(f"{path} is damaged (wrong checksum): make it again with tasc index")
    try:
        index = NgramIndex(np.asarray(block))
        if index.vocabulary > len(tokenizer.vocabulary()):
            raise ValueError("the index names tokens that its tokenizer does not have")
    except ValueError as error:  # only a file with a forged checksum comes here
        raise IntegrityError(f"{path}: {error}: make it again with tasc index") from error
    return index


@dataclass(frozen=True, eq=False)
class Indexed:
    """A corpus counted, still in memory, and how fast that went."""

    index: NgramIndex
    tokenizer: LoadedTokenizer
    options: IndexOptions
    split: str
    outputs: int
    tokens: int
    seconds: float

    def save(self, folder: Path) -> None:
        """Write the file that ``tasc bench --index`` maps."""
        save_index(self.index, self.tokenizer, folder)

    def to_dict(self) -> dict[str, Any]:
        """Return what was counted, as JSON values."""
        size = HEADER.size + self.index.block.nbytes
        return {
            "source": self.options.source.path,
            "split": self.split,
            "outputs": self.outputs,
            "tokens": self.tokens,
            "contexts": self.index.contexts,
            "continuations": self.index.entries,
            "bytes": size,
            "bytes_per_token": size / max(self.tokens, 1),
            "build_seconds": self.seconds,
            "counts": asdict(self.options.counts),
        }


def make_index(corpus: Corpus, tokenizer: LoadedTokenizer, options: IndexOptions) -> Indexed:
    """Index the outputs of ``corpus``."""
    outputs = _encode(corpus.outputs, tokenizer, options)
    begin = time.perf_counter()
    index = build_index(outputs, tokenizer.eos_id, options.counts)
    seconds = time.perf_counter() - begin
    sizes = len(outputs), sum(map(len, outputs))
    return Indexed(index, tokenizer, options, corpus.split, *sizes, seconds)


def _encode(
    texts: Sequence[str], tokenizer: LoadedTokenizer, options: IndexOptions
) -> list[np.ndarray]:
    """Encode texts in pieces, wherever the executor runs them."""
    pieces = (texts[i : i + _PIECE] for i in range(0, len(texts), _PIECE))
    with options.start(tokenizer) as executor:
        encoded = in_order(executor.run(LoadedTokenizer.encode, pieces))
        return [text for piece in encoded for text in piece.split()]


def method_for(index: NgramIndex) -> str:
    """Return TASC-spec as ``--method`` takes it, counting as ``index`` was counted."""
    return f"tasc-spec:{_counts(_made(index))}"


def _made(index: NgramIndex) -> Counts:
    return Counts(index.n_max, index.min_count, index.discount, index.strength, index.mark)


def check_counts(index: NgramIndex, options: Counts) -> None:
    """Refuse a saved index that was counted otherwise than a method asks."""
    made = _made(index)
    asked = Counts(options.n_max, options.p_min, options.discount, options.strength, options.mark)
    if made != asked:
        raise InputError(
            f"the index was counted with {_counts(made)}, the method asks for {_counts(asked)}: "
            "give the method the index's values, or make another index"
        )


def _counts(o: Counts) -> str:
    return (
        f"n_max={o.n_max},p_min={o.p_min},discount={o.discount:g},strength={o.strength:g},"
        f"mark={str(o.mark).lower()}"
    )
