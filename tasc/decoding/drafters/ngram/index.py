"""The corpus index: built from outputs, saved as one file, mapped and shared by processes.

The file is a header of 128 bytes (magic, version, words of the block, SHA-256 of the tokenizer) and
the block that the native index drafts from, little-endian.
"""

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tasc._native import NgramIndex
from tasc.decoding.drafters.ngram.options import Counts
from tasc.errors import InputError, IntegrityError
from tasc.files.disk import writing
from tasc.tokenizer.loaded import LoadedTokenizer

FILE = "index.tasc"
MAGIC, VERSION = b"TASCNGRM", 2
HEADER = struct.Struct("<8sI4xQ32s72x")  # magic, version, words of the block, tokenizer
BLOCK_HEADER = 64  # bytes of the block before its text

_CHUNK = 1 << 20  # tokens that are looked at at a time

TOKEN_LIMIT = 0xFFFFF  # ids are kept in 20 bits, the largest of which is the mark


def build_index(outputs: Sequence[np.ndarray], end: int, options: Counts) -> NgramIndex:
    """Count the n-grams of ``outputs``, each (T_i,) int32, the ``end`` token after each.

    Raises:
        InputError: there are no outputs, or a token id does not fit the index.
    """
    if not len(outputs):
        raise InputError("the corpus has no outputs to count n-grams in: give some")
    tokens = np.concatenate(outputs).astype(np.int32, copy=False)
    check_ids(tokens, end)
    offsets = np.cumsum([0, *map(len, outputs)], dtype=np.int64)
    o = options
    return NgramIndex(tokens, offsets, end, o.n_max, o.discount, o.strength, o.p_min, o.mark)


def check_ids(tokens: np.ndarray, end: int) -> None:
    """Refuse token ids (T,) that an index cannot hold."""
    largest = max(int(tokens.max(initial=0)), end)
    if largest >= TOKEN_LIMIT:
        raise InputError(f"an index holds token ids below {TOKEN_LIMIT}, the corpus has {largest}")


def indexed_outputs(index: NgramIndex) -> list[np.ndarray]:
    """Return the outputs (T_i,) int32 that ``index`` was counted from, without their end tokens.

    Raises:
        IntegrityError: it is damaged, and might hold anything.
    """
    if broken := index.check_integrity():
        raise IntegrityError(
            f"the index is damaged ({broken} does not hold): make it again with tasc index"
        )
    text = index.text()
    parts = np.split(text, np.flatnonzero(text == index.end) + 1)[:-1]
    return [part[int(index.mark) : -1] for part in parts]


def outputs_of(index: NgramIndex) -> int:
    """Return how many outputs ``index`` was counted from."""
    text = index.block.view(np.uint8)[BLOCK_HEADER:][: 3 * index.tokens].reshape(-1, 3)
    end = np.frombuffer(index.end.to_bytes(3, "little"), np.uint8)
    parts = (text[begin : begin + _CHUNK] for begin in range(0, len(text), _CHUNK))
    return sum(int((part == end).all(1).sum()) for part in parts)


def tokens_of(index: NgramIndex) -> int:
    """Return how many tokens these outputs have; the index adds ends and marks to them."""
    return index.tokens - outputs_of(index) * (1 + index.mark)


def save_index(index: NgramIndex, tokenizer: LoadedTokenizer, folder: Path) -> Path:
    """Write ``index``, whose tokens are ``tokenizer``'s, into ``folder``; return the file."""
    block = index.block
    path = folder / FILE
    with writing(path, HEADER.size + block.nbytes), path.open("wb") as file:
        file.write(file_header(len(block), tokenizer))
        file.write(block.data)  # numpy's own way does not say what the system refused
    return path


def file_header(words: int, tokenizer: LoadedTokenizer) -> bytes:
    """Return what stands before a block of so many words of 64 bits."""
    return HEADER.pack(MAGIC, VERSION, words, tokenizer.identity)


def load_index(folder: Path, tokenizer: LoadedTokenizer) -> NgramIndex:
    """Map the index in ``folder``; processes that map the same file share its memory.

    Nothing is copied and little is read, however large the file is. It is the native index that
    checks every reference in the block when it follows it, so that drafting from a damaged or
    forged one stays inside it and names tokens of the vocabulary only: drafts get worse, outputs
    stay what they are. ``NgramIndex.check_integrity`` reads all of it.

    Raises:
        InputError: there is none, or it was made with another tokenizer or version.
        IntegrityError: the file is truncated, or was not written to its end.
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
    _, version, words, owner = HEADER.unpack(head)
    if version != VERSION:
        raise InputError(
            f"{path} has format {version}, this version reads {VERSION}: "
            f"make it again with tasc index --tokenizer {tokenizer.path}"
        )
    expected = HEADER.size + 8 * words
    if path.stat().st_size != expected:
        raise IntegrityError(
            f"{path} should have {expected} bytes, it has {path.stat().st_size}: "
            "make it again with tasc index"
        )
    if owner != tokenizer.identity:
        raise InputError(
            f"{path} was made with another tokenizer than {tokenizer.path}: "
            f"make one with tasc index --tokenizer {tokenizer.path}"
        )
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    mapped.madvise(mmap.MADV_RANDOM)  # what lies beside a context is of no use: read no further
    block = np.frombuffer(mapped, np.uint64, words, HEADER.size)
    try:
        index = NgramIndex(block)
        if index.vocabulary > len(tokenizer.vocabulary()):
            raise ValueError("the index names tokens that its tokenizer does not have")
    except ValueError as error:
        raise IntegrityError(f"{path}: {error}: make it again with tasc index") from error
    return index


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
