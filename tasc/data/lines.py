"""Text files of strangers by lines, packed or not: UTF-8, and none larger than memory can take."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from tasc.errors import InputError

LONGEST = 512 << 20  # bytes of one line
# Text is packed to a tenth or so; a bomb to a thousandth.
_RATIO, _HARMLESS = 100, 1 << 30


def bytes_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file with their ends, unpacked if its name ends in .gz.

    Raises:
        InputError: it cannot be read, a line is too long, or it unpacks to far more than text does.
    """
    packed = path.suffix == ".gz"
    left = max(_HARMLESS, _RATIO * path.stat().st_size)
    try:
        with gzip.open(path) if packed else path.open("rb") as lines:
            while line := lines.readline(LONGEST + 1):
                left -= len(line) * packed
                if len(line) > LONGEST or left < 0:
                    raise InputError(_too_much(path, line))
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}): get the file again") from None


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines as text, without a byte order mark; InputError names a line of no UTF-8."""
    for number, line in enumerate(bytes_lines(path), start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}:{number}: invalid UTF-8 (byte 0x{line[error.start]:02x} at column "
                f"{error.start + 1}); save the file as UTF-8"
            ) from None


def _too_much(path: Path, line: bytes) -> str:
    if len(line) > LONGEST:
        return f"{path}: a line of more than {LONGEST:,} bytes; break it into lines (JSONL)"
    return (
        f"{path}: it unpacks to more than {_RATIO} times its size; unpack it yourself if that is so"
    )
