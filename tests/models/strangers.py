"""Model folders as a stranger might hand them over."""

import json
import os
import pickle
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from tasc.errors import InputError
from tests.bounds import bounded_work


def refused(load, folder, *given, kind=InputError, **options) -> str:
    """Load what must be refused with little work; return the line, which names it and says more."""
    with bounded_work(), pytest.raises(kind) as caught:
        load(folder, *given, **options)
    line = str(caught.value)
    assert str(folder) in line
    assert "\n" not in line
    assert len(line) < 700
    return line


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def bomb(file: Path, mark: Path) -> Path:
    """Write a pickle that makes the folder ``mark`` where it is loaded."""
    file.write_bytes(pickle.dumps(Bomb(mark)))
    return file


def copied(base: Path, folder: Path, **config: Any) -> Path:
    shutil.copytree(base, folder)
    stated = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(stated | config))
    return folder


def indexed(base: Path, folder: Path, name: str) -> Path:
    """Copy a model, with an index that names ``name`` in place of its weights."""
    copied(base, folder)
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    weights = {"model.norm.weight": name, "model.embed_tokens.weight": "part.safetensors"}
    index = json.dumps({"metadata": {}, "weight_map": weights})
    (folder / "model.safetensors.index.json").write_text(index)
    return folder


def headed(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    """Return a safetensors file of a header, which may be false."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data
