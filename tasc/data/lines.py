"""Text files of strangers by lines, packed or not: UTF-8, and none larger than memory can take."""

import gzip
import zlib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import IO, cast

from tasc.errors import InputError

LONGEST = 512 << 20  # bytes of one line
# Text is packed to a tenth or so; a bomb to a thousandth.
_RATIO, _HARMLESS = 100, 1 << 30


def bytes_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file with their ends, unpacked if its name ends in .gz.

    Raises:
        InputError: it cannot be read, a line is too long, or it unpacks to far more than text does.
    """
    return (line for _, line in _offset_lines(path, 0, None))


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines as text, without a byte order mark; InputError names a line of no UTF-8."""
    return (line for _, line in offset_lines(path))


def offset_lines(path: Path, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield the lines that begin at a byte from ``begin`` on and before ``end``, each with that.

    So every line belongs to one of several ranges that meet, wherever they do. Raises as
    ``text_lines`` does; files that are packed are read from their first byte on.
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
    """Name the line that begins at a byte: FILE:NUMBER. The lines before it are counted."""
    number = sum(1 for _ in takewhile(lambda line: line[0] <= at, _offset_lines(path, 0, None)))
    return f"{path}:{number}"


def _offset_lines(path: Path, begin: int, end: int | None) -> Iterator[tuple[int, bytes]]:
    packed = path.suffix == ".gz"
    left = max(_HARMLESS, _RATIO * path.stat().st_size)
    try:
        opened = cast(IO[bytes], gzip.open(path) if packed else path.open("rb"))  # noqa: SIM115
        with opened as lines:
            at = _seek_line(lines, begin) if begin else 0
            while (end is None or at < end) and (line := lines.readline(LONGEST + 1)):
                left -= len(line) * packed
                if len(line) > LONGEST or left < 0:
                    raise InputError(_too_much(path, line))
                yield at, line
                at += len(line)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}): get the file again") from None


def _seek_line(lines: IO[bytes], begin: int) -> int:
    """Go to the first line that begins at ``begin`` or behind it; return where that is."""
    lines.seek(begin - 1)
    while (some := lines.readline(LONGEST)) and not some.endswith(b"\n"):
        pass
    return lines.tell()


def _too_much(path: Path, line: bytes) -> str:
    if len(line) > LONGEST:
        return f"{path}: a line of more than {LONGEST:,} bytes; break it into lines (JSONL)"
    return (
        f"{path}: it unpacks to more than {_RATIO} times its size; unpack it yourself if that is so"
    )
