"""The corpus index: built from outputs, saved as one file, memory-mapped and shared by processes.

The file is little-endian: a header of 128 bytes (magic, version, words of the block, SHA-256 of the
tokenizer, shards of a split), then the block that the native index drafts from.
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
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer

FILE = "index.tasc"
MAGIC, VERSION = b"TASCNGRM", 2
HEADER = struct.Struct("<8sI4xQ32s72x")
BLOCK_HEADER = 64  # bytes in the block before its text

_CHUNK = 1 << 20  # tokens to scan at a time
TOKEN_LIMIT = 0xFFFFF  # ids have 20 bits, and the largest value is the mark


def build_index(outputs: Sequence[np.ndarray], end: int, options: Counts) -> NgramIndex:
    """Count the n-grams of ``outputs``, each (T_i,) int32, with ``end`` after each.

    Raises InputError if there are no outputs, or a token id is too large for an index.
    """
    if not len(outputs):
        raise InputError("the corpus has no outputs to count n-grams in: pass some")
    whole, o = Encoded.of(outputs), options
    check_ids(whole.tokens, end)
    text = whole.tokens, whole.offsets, end
    return NgramIndex(*text, o.n_max, o.discount, o.strength, o.p_min, o.mark)


def check_ids(tokens: np.ndarray, end: int) -> None:
    """Raise InputError if one of the token ids (T,) is too large for an index."""
    largest = max(int(tokens.max(initial=0)), end)
    if largest >= TOKEN_LIMIT:
        raise InputError(f"an index holds token ids below {TOKEN_LIMIT}, the corpus has {largest}")


def indexed_outputs(index: NgramIndex) -> list[np.ndarray]:
    """Return the outputs (T_i,) int32 counted in ``index``, without end tokens.

    Raises IntegrityError if the index is damaged.
    """
    if broken := index.check_integrity():
        raise IntegrityError(
            f"the index is damaged ({broken} does not hold): make it again with tasc index"
        )
    text = index.text()
    parts = np.split(text, np.flatnonzero(text == index.end) + 1)[:-1]
    return [part[int(index.mark) : -1] for part in parts]


def outputs_of(index: NgramIndex) -> int:
    """Return the number of outputs in ``index``."""
    text = index.block.view(np.uint8)[BLOCK_HEADER:][: 3 * index.tokens].reshape(-1, 3)
    end = np.frombuffer(index.end.to_bytes(3, "little"), np.uint8)
    parts = (text[begin : begin + _CHUNK] for begin in range(0, len(text), _CHUNK))
    return sum(int((part == end).all(1).sum()) for part in parts)


def tokens_of(index: NgramIndex) -> int:
    """Return the number of tokens in these outputs, without end tokens and marks."""
    return index.tokens - outputs_of(index) * (1 + index.mark)


def save_index(index: NgramIndex, tokenizer: LoadedTokenizer, folder: Path) -> None:
    """Write ``index``, over ``tokenizer``'s tokens, into ``folder``."""
    block = index.block
    path = folder / FILE
    with writing(path, HEADER.size + block.nbytes), path.open("wb") as file:
        file.write(file_header(len(block), tokenizer))
        file.write(block.data)  # ndarray.tofile hides the system's error


def file_header(words: int, tokenizer: LoadedTokenizer) -> bytes:
    """Return the header of a block of ``words`` 64-bit words."""
    return HEADER.pack(MAGIC, VERSION, words, tokenizer.identity)


def load_index(folder: Path, tokenizer: LoadedTokenizer, *, copy: bool = False) -> NgramIndex:
    """Memory-map the index in ``folder``; processes that map the same file share its memory.

    Nothing is copied, and little is read, whatever the size of the file. If the file is cut or
    written over while it is mapped, the system kills the process (SIGBUS): ``copy`` reads the whole
    file into private memory instead, for processes that serve. The native index checks
    each reference in the block when it follows it. Drafting from a damaged or forged index thus
    never reads outside of it and only drafts tokens of the vocabulary: drafts get worse, outputs do
    not change. ``NgramIndex.check_integrity`` reads the whole file.

    Raises InputError if there is no index, or it was made with another tokenizer or version, and
    IntegrityError if the file is truncated or incomplete.
    """
    path = folder / FILE
    words = _checked_words(path, tokenizer)
    block = _read(path, words) if copy else _map(path, words)
    try:
        index = NgramIndex(block)
        if index.vocabulary > len(tokenizer.vocabulary()):
            raise ValueError("the index contains tokens that its tokenizer lacks")
    except ValueError as error:
        raise IntegrityError(f"{path}: {error}: make it again with tasc index") from error
    return index


def _checked_words(path: Path, tokenizer: LoadedTokenizer) -> int:
    """Return the number of words of the block in ``path``. Raises the errors of ``load_index``."""
    try:
        with path.open("rb") as file:
            head = file.read(HEADER.size)
    except OSError as error:
        raise InputError(
            f"{path.parent} holds no index ({error.strerror}): make one with tasc index"
        ) from error
    if head[: len(MAGIC)] != MAGIC:
        raise InputError(f"{path} is not an index of tasc: make one with tasc index")
    if len(head) < HEADER.size:
        raise IntegrityError(f"{path} is truncated: make it again with tasc index")
    _, version, words, owner, *_ = HEADER.unpack(head)
    if version != VERSION:
        raise InputError(
            f"{path} has format {version}, this version reads {VERSION}: "
            f"make it again with tasc index --tokenizer {tokenizer.path}"
        )
    expected = HEADER.size + 8 * words
    if path.stat().st_size != expected:
        raise IntegrityError(
            f"{path} should have {expected} bytes, but has {path.stat().st_size}: "
            "make it again with tasc index"
        )
    if owner != tokenizer.identity:
        raise InputError(
            f"{path} was made with another tokenizer than {tokenizer.path}: "
            f"make one with tasc index --tokenizer {tokenizer.path}"
        )
    return int(words)


def _map(path: Path, words: int) -> np.ndarray:
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    mapped.madvise(mmap.MADV_RANDOM)  # neighbours of a context are of no use, so no read-ahead
    return np.frombuffer(mapped, np.uint64, words, HEADER.size)


def _read(path: Path, words: int) -> np.ndarray:
    """Raise IntegrityError if the file was cut since its size was checked."""
    block = np.fromfile(path, np.uint64, words, offset=HEADER.size)
    if len(block) < words:
        raise IntegrityError(f"{path} is truncated: make it again with tasc index")
    return block


def method_for(index: NgramIndex) -> str:
    """Return the ``--method`` for TASC-spec with the counts of ``index``."""
    return f"tasc-spec:{_written(_counts_of(index))}"


def _counts_of(index: NgramIndex) -> Counts:
    return Counts(index.n_max, index.min_count, index.discount, index.strength, index.mark)


def check_counts(index: NgramIndex, options: Counts) -> None:
    """Raise InputError if a saved index was counted with other options than a method's."""
    saved = _counts_of(index)
    wanted = Counts(options.n_max, options.p_min, options.discount, options.strength, options.mark)
    if saved != wanted:
        raise InputError(
            f"the index was made with {_written(saved)}, but the method has {_written(wanted)}: "
            "give the method the index's values, or make another index"
        )


def _written(o: Counts) -> str:
    return (
        f"n_max={o.n_max},p_min={o.p_min},discount={o.discount:g},strength={o.strength:g},"
        f"mark={str(o.mark).lower()}"
    )
