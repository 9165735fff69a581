"""Check the files of an untrusted model folder before a library reads them.

Only JSON and safetensors files in the folder itself are read. Pickles, which can run code, are not.
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
GENERATION = "generation_config.json"
CODE = ("auto_map", "custom_pipelines")  # keys that make transformers import Python files
Shapes = Mapping[str, Sequence[int]]  # of the tensors by name

_SHARD = re.compile(r".*-([0-9]{1,5})-of-([0-9]{1,5})\.safetensors", re.DOTALL)
_WRITE_INDEX = (
    'python -c "import glob, json; from safetensors import safe_open; '
    "names = {key: file for file in glob.glob('*-of-*.safetensors') "
    "for key in safe_open(file, 'pt').keys()}; "
    f"json.dump({{'metadata': {{}}, 'weight_map': names}}, open('{INDEX}', 'w'))\""
)
_PLAIN_NAME = re.compile(r"[\w.-]+\.safetensors")  # no folder, no wildcard
_MOST_JSON = 1 << 26  # bytes; the index of the largest models has about ten million
AGAIN = "download or save the model again"


def read_json(file: Path, what: str) -> dict[str, Any]:
    """Read the object in a JSON file; errors begin with ``what``, such as "model F".

    Raises InputError if it is not a regular file in its folder, or not a JSON object.
    """
    check_inside(file, what)
    try:
        if file.stat().st_size > _MOST_JSON:
            raise InputError(f"{what}: {file.name} is larger than {_MOST_JSON:,} bytes: {AGAIN}")
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{what}: {file.name} is not JSON: {one_line(error)}: {AGAIN}") from error
    if not isinstance(content, dict):
        raise InputError(f"{what}: {file.name} is not a JSON object: {AGAIN}")
    return content


def model_ends(folder: Path, what: str) -> list[int]:
    """Return the end tokens that a model's files state. Raises errors of ``ends_of``."""
    file = folder / GENERATION
    settings = read_json(file if file.exists() else folder / CONFIG, what)
    return ends_of(settings.get("eos_token_id"), what)


def ends_of(stated: Any, what: str) -> list[int]:  # noqa: ANN401 - any JSON value
    """Return the end tokens in ``eos_token_id``. Raises InputError for what is no token id."""
    ends = stated if isinstance(stated, list) else [stated]
    if stated is not None and not all(type(end) is int for end in ends):
        raise InputError(
            f"{what}: the end token {stated!r:.60} is not a token id: correct eos_token_id in "
            f"{GENERATION}"
        )
    return [] if stated is None else ends


def without_code(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values without the keys ``CODE`` at any depth."""
    plain: dict[str, Any] = json.loads(
        json.dumps(content),
        object_hook=lambda values: {key: value for key, value in values.items() if key not in CODE},
    )
    return plain


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object, without the keys ``CODE`` at any depth."""
    plain = json.dumps(without_code(content), indent=2)
    file.write_text(plain + "\n", encoding="utf-8")


def copy_json(file: Path, folder: Path, what: str) -> None:
    """Copy a JSON object into ``folder``, without the keys ``CODE`` at any depth.

    Raises errors of ``read_json``.
    """
    write_json(folder / file.name, read_json(file, what))


def check_inside(file: Path, what: str) -> None:
    """Raise InputError for a file that is not regular, or a link to one outside its folder.

    Links of a snapshot in the Hub's cache into the ``blobs`` of the same repository are accepted.
    """
    if not file.is_file():
        raise InputError(f"{what}: {file.name} is missing or not a regular file: {AGAIN}")
    folder = file.parent.resolve()
    allowed = [folder]
    if folder.parent.name == "snapshots":
        allowed.append(folder.parent.parent / "blobs")
    if not any(file.resolve().is_relative_to(parent) for parent in allowed):
        raise InputError(
            f"{what}: {file.name} is a link to {file.resolve()}, outside the folder: replace the "
            "link by a copy"
        )


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a model's weights, all in the folder itself.

    Raises InputError if there are none, or the index names any other file.
    """
    what = f"model {folder}"
    if (folder / WEIGHTS).exists():
        files = [folder / WEIGHTS]
    elif (folder / INDEX).exists():
        files = [folder / name for name in shard_names(folder)]
    else:
        raise _no_weights(folder, what)
    for file in files:
        check_inside(file, what)
    return files


def _no_weights(folder: Path, what: str) -> InputError:
    """Return the error for a folder without weights, or with shards that no index lists."""
    named = ((_SHARD.fullmatch(path.name), path.name) for path in folder.glob("*.safetensors"))
    shards = {int(match[1]): (name, int(match[2])) for match, name in named if match}
    if not shards:
        return InputError(
            f"{what}: no safetensors weights: convert it with transformers' save_pretrained"
        )
    first, total = next(iter(shards.values()))
    if missing := [n for n in range(1, total + 1) if n not in shards][:8]:
        return InputError(
            f"{what}: of its {total} weight files (such as {first}), numbers "
            f"{', '.join(map(str, missing))} are missing, and so is {INDEX}: download them again"
        )
    if total == 1:
        return InputError(f"{what}: its weights are in {first}: rename it to {WEIGHTS}")
    return InputError(
        f"{what}: it has {total} weight files but no {INDEX}, which lists their tensors: download "
        f"it, too, or write it in the model's folder: {_WRITE_INDEX}"
    )


def shard_names(folder: Path) -> list[str]:
    """Return the names of the weight files that a model's index lists.

    Raises InputError if one is not the plain name of a safetensors file.
    """
    what = f"model {folder}"
    names = read_json(folder / INDEX, what).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise InputError(f"{what}: {INDEX} lists no weights: {AGAIN}")
    for name in names.values():
        if not isinstance(name, str) or not _PLAIN_NAME.fullmatch(name):
            raise InputError(
                f"{what}: {INDEX} lists {str(name)[:80]!r}, but only safetensors files in the "
                "folder itself are read: convert the model with transformers' save_pretrained, "
                "where you trust it"
            )
    return sorted(set(names.values()))


def tensor_shapes(files: Sequence[Path], what: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all tensors, from the files' headers alone.

    Raises IntegrityError if a header is damaged.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as tensors:
                names: list[str] = tensors.keys()
                shapes |= {name: tuple(tensors.get_slice(name).get_shape()) for name in names}
        except (OSError, ValueError, SafetensorError) as error:
            raise IntegrityError(
                f"{what}: damaged weights: {file.name}: {one_line(error)}: {AGAIN}"
            ) from error
    if not shapes:
        raise IntegrityError(f"{what}: its weights contain no tensors: {AGAIN}")
    return shapes


def elements(shapes: Shapes) -> int:
    """Return the total number of elements of tensors of these shapes."""
    return sum(math.prod(shape) for shape in shapes.values())


def count_parameters(folder: Path) -> int:
    """Count the parameters of a model folder by the shapes in its files.

    Raises InputError if there are none.
    """
    return elements(tensor_shapes(weight_files(folder), f"model {folder}"))
