"""The header of a GGUF file, versions 2 and 3: its metadata, and the place of each tensor.

The file is not trusted: every length is compared with the size of the file before it is used. The
reader of the ``gguf`` package does not do this: a false length makes it run out of memory.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tasc.errors import InputError

_MAGIC, _VERSIONS = b"GGUF", (2, 3)
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_STRING, _ARRAY = 8, 9
_MOST_ENTRIES = 1 << 16  # fields, and tensors
_MOST_DIMENSIONS = 4
_MOST_ALIGNMENT = 1 << 16
ADVICE = "download the file again"
_T = TypeVar("_T")


@dataclass(frozen=True)
class TensorInfo:
    """The place and shape of a tensor."""

    shape: tuple[int, ...]  # the slowest dimension first
    kind: int  # ggml's number of the data type
    start: int  # first byte in the file


@dataclass(frozen=True)
class GgufHeader:
    """The metadata and the tensors of a GGUF file, by name."""

    path: Path
    fields: dict[str, Any]
    tensors: dict[str, TensorInfo]

    def get(self, name: str, kind: type[_T], default: _T | None = None) -> _T:
        """Return a field. Raises InputError if it is missing without a default, or not a ``kind``.

        An integer is accepted for a float.
        """
        value = self.fields.get(name, default)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            fault = "is missing" if value is None else f"is of type {type(value).__name__}"
            raise InputError(f"{self.path}: the field {name} {fault}: {ADVICE}")
        return value


def read_header(path: Path) -> GgufHeader:
    """Read the header. Raises InputError if the file is not a complete GGUF file."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(path, _Cursor(data))
    except (ValueError, struct.error) as error:
        raise InputError(f"{path} is not a GGUF file: {error}: {ADVICE}") from None


class _Cursor:
    """A position in the file that never passes its end."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self.at:
            raise ValueError(f"it ends inside an entry at byte {self.at}")
        self.at += size
        return self._data[self.at - size : self.at]

    def numbers(self, code: str, count: int = 1) -> tuple[Any, ...]:
        return struct.unpack(f"<{count}{code}", self.take(struct.calcsize(f"<{code}") * count))

    def text(self) -> str:
        return self.take(self.numbers("Q")[0]).decode()

    def texts(self, count: int) -> list[str]:
        if count * 8 > len(self._data) - self.at:  # the bytes of their lengths
            raise ValueError(f"it ends inside a list of {count:,} entries at byte {self.at}")
        return [self.text() for _ in range(count)]


def _read(path: Path, cursor: _Cursor) -> GgufHeader:
    if cursor.take(4) != _MAGIC:
        raise ValueError("it does not start with GGUF")
    version, tensors, fields = cursor.numbers("I")[0], *cursor.numbers("Q", 2)
    if version not in _VERSIONS:
        raise ValueError(f"version {version} or another byte order, not version 2 or 3")
    if max(tensors, fields) > _MOST_ENTRIES:
        raise ValueError(f"it claims {tensors:,} tensors and {fields:,} fields")
    metadata = _by_name([(cursor.text(), _value(cursor)) for _ in range(fields)])
    tensor_infos = _by_name([_tensor(cursor) for _ in range(tensors)])
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= _MOST_ALIGNMENT:
        raise ValueError(f"general.alignment is {alignment!r:.60}")
    base = -(-cursor.at // alignment) * alignment
    placed = {n: TensorInfo(t.shape, t.kind, base + t.start) for n, t in tensor_infos.items()}
    return GgufHeader(path, metadata, placed)


def _by_name(entries: list[tuple[str, _T]]) -> dict[str, _T]:
    named = dict(entries)
    if len(named) < len(entries):
        raise ValueError("a name occurs twice")
    return named


def _value(cursor: _Cursor) -> Any:  # noqa: ANN401 - a scalar, a string, or a list of them
    (kind,) = cursor.numbers("I")
    if kind == _STRING:
        return cursor.text()
    if kind != _ARRAY:
        return cursor.numbers(_code(kind))[0]
    (kind,), (count,) = cursor.numbers("I"), cursor.numbers("Q")
    if kind == _STRING:
        return cursor.texts(count)
    return list(cursor.numbers(_code(kind), count))


def _code(kind: int) -> str:
    if kind not in _SCALARS:
        raise ValueError(f"a field of type {kind}")
    return _SCALARS[kind]


def _tensor(cursor: _Cursor) -> tuple[str, TensorInfo]:
    name, (dimensions,) = cursor.text(), cursor.numbers("I")
    if dimensions > _MOST_DIMENSIONS:
        raise ValueError(f"tensor {name!r:.60} has {dimensions} dimensions")
    shape = cursor.numbers("Q", dimensions)
    (kind,), (start,) = cursor.numbers("I"), cursor.numbers("Q")
    return name, TensorInfo(shape[::-1], kind, start)
