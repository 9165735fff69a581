"""Lines of UTF-8 text files, compressed or not, with limits that protect the memory."""

import gzip
import zlib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import IO, cast

from tasc.errors import InputError

LONGEST = 512 << 20  # bytes of one line
# Text compresses to about a tenth, a decompression bomb to a thousandth.
_RATIO, _HARMLESS = 100, 1 << 30  # largest ratio, beyond this many bytes
_SHORTEST = 64  # bytes that a line counts for: even an empty one takes time


def bytes_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file with their line ends; files named .gz are decompressed.

    Raises InputError if the file cannot be read, a line is too long, or it is a decompression bomb.
    """
    return (line for _, line in _offset_lines(path, 0, None))


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines as text without a byte order mark; InputError names a line not in UTF-8."""
    return (line for _, line in offset_lines(path))


def offset_lines(path: Path, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield (offset, line) for the lines that begin in the bytes ``begin`` to ``end``, exclusive.

    Each line therefore belongs to exactly one of several adjacent ranges. Raises the errors of
    ``text_lines``. Compressed files are read from the start.
    """
    for at, line in _offset_lines(path, begin, end):
        try:
            yield at, line.decode("utf-8" if at else "utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{line_name(path, at)}: invalid UTF-8 (byte 0x{line[error.start]:02x} at column "
                f"{error.start + 1}); save the file as UTF-8"
            ) from None


def line_name(path: Path, at: int) -> str:
    """Return FILE:NUMBER for the line at a byte offset, by counting the lines before it."""
    number = sum(1 for _ in takewhile(lambda line: line[0] <= at, _offset_lines(path, 0, None)))
    return f"{path}:{number}"


def _offset_lines(path: Path, begin: int, end: int | None) -> Iterator[tuple[int, bytes]]:
    compressed = path.suffix == ".gz"
    left = max(_HARMLESS, _RATIO * path.stat().st_size)
    try:
        opened = cast(IO[bytes], gzip.open(path) if compressed else path.open("rb"))  # noqa: SIM115
        with opened as lines:
            at = _seek_line(lines, begin) if begin else 0
            while (end is None or at < end) and (line := lines.readline(LONGEST + 1)):
                left -= max(len(line), _SHORTEST) * compressed
                if len(line) > LONGEST or left < 0:
                    raise InputError(_too_much(path, line))
                yield at, line
                at += len(line)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path} ({error}): download or copy it again") from None


def _seek_line(lines: IO[bytes], begin: int) -> int:
    """Go to the first line that begins at or after ``begin``, and return its offset."""
    lines.seek(begin - 1)
    while (some := lines.readline(LONGEST)) and not some.endswith(b"\n"):
        pass
    return lines.tell()


def _too_much(path: Path, line: bytes) -> str:
    if len(line) > LONGEST:
        return f"{path} has a line of more than {LONGEST:,} bytes: split it into lines (JSONL)"
    return f"{path} decompresses to more than {_RATIO} times its size: decompress it yourself"
