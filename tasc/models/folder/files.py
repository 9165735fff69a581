"""The files of a model folder, looked at before a library reads them: the folder may be anybody's.

Nothing is read but JSON and safetensors that lie in the folder itself. Weights in other formats
are pickles, which can run code.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from tasc.data.foreign import one_line
from tasc.errors import InputError, IntegrityError

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
Shapes = Mapping[str, Sequence[int]]  # of the tensors by name

_PLAIN_NAME = re.compile(r"[\w.-]+\.safetensors")  # no folder, and nothing that a pattern reads
_MOST_JSON = 1 << 26  # bytes; the index of the largest models has some ten millions
_AGAIN = "fetch or save the model again"


def read_json(file: Path, what: str) -> dict[str, Any]:
    """Return the object in a JSON file of ``what``, which a message begins with ("model F").

    Raises InputError where the file is not a regular one in its folder, or no JSON object.
    """
    check_inside(file, what)
    try:
        if file.stat().st_size > _MOST_JSON:
            raise InputError(f"{what}: {file.name} is larger than any real one: {_AGAIN}")
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{what}: {file.name} is not JSON: {one_line(error)}: {_AGAIN}") from error
    if not isinstance(found, dict):
        raise InputError(f"{what}: {file.name} is not a JSON object: {_AGAIN}")
    return found


def check_inside(file: Path, what: str) -> None:
    """Refuse what is no regular file, or is a link to one outside of its folder.

    A snapshot in the Hub's cache holds links into the ``blobs`` of the same repository.
    """
    if not file.is_file():
        raise InputError(f"{what}: {file.name} is missing or no regular file: {_AGAIN}")
    folder = file.parent.resolve()
    homes = [folder]
    if folder.parent.name == "snapshots":
        homes.append(folder.parent.parent / "blobs")
    if not any(file.resolve().is_relative_to(home) for home in homes):
        raise InputError(
            f"{what}: {file.name} is a link to {file.resolve()}, outside of the folder, which is "
            "not followed: put a copy there"
        )


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that hold a model's weights, in the folder itself.

    Raises InputError where there are none, or the index names anything else.
    """
    what = f"model {folder}"
    if (folder / WEIGHTS).exists() or not (folder / INDEX).exists():
        if not (folder / WEIGHTS).exists():
            raise InputError(
                f"{what}: no safetensors weights; convert it with save_pretrained of transformers"
            )
        files = [folder / WEIGHTS]
    else:
        files = [folder / name for name in shard_names(folder)]
    for file in files:
        check_inside(file, what)
    return files


def shard_names(folder: Path) -> list[str]:
    """Return the names of the files that the index of a model names.

    Raises InputError where one is no plain name of a safetensors file.
    """
    what = f"model {folder}"
    listed = read_json(folder / INDEX, what).get("weight_map")
    if not isinstance(listed, dict) or not listed:
        raise InputError(f"{what}: {INDEX} names no weights: {_AGAIN}")
    for name in listed.values():
        if not isinstance(name, str) or not _PLAIN_NAME.fullmatch(name):
            raise InputError(
                f"{what}: {INDEX} names {str(name)[:80]!r}, and only safetensors files in the "
                "folder itself are read: convert it with save_pretrained of transformers, on a "
                "machine you trust"
            )
    return sorted(set(listed.values()))


def tensor_shapes(files: Sequence[Path], what: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all tensors, from the files' headers alone.

    Raises IntegrityError where a header is damaged.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as held:
                names: list[str] = held.keys()
                shapes |= {name: tuple(held.get_slice(name).get_shape()) for name in names}
        except (OSError, ValueError, SafetensorError) as error:
            raise IntegrityError(
                f"{what}: damaged weights: {file.name}: {one_line(error)}: {_AGAIN}"
            ) from error
    if not shapes:
        raise IntegrityError(f"{what}: its weights hold no tensors: {_AGAIN}")
    return shapes


def elements(shapes: Shapes) -> int:
    """Return how many numbers tensors of these shapes hold."""
    return sum(math.prod(shape) for shape in shapes.values())
