"""Find a model's folder, or download its JSON and safetensors files from the Hub."""

import re
from pathlib import Path

from tasc.data.foreign import one_line
from tasc.data.quiet import no_bars
from tasc.errors import InputError, UnavailableError
from tasc.models.folder.files import CONFIG, INDEX, WEIGHTS, shard_names

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_FIRST = (CONFIG, "generation_config.json", "adapter_config.json", WEIGHTS, INDEX)


def model_folder(path: str) -> Path:
    """Return the model folder ``path``, or the folder in the Hub's cache for a Hub id.

    Raises:
        InputError: there is no such folder, and no such model on the Hub.
        UnavailableError: the Hub cannot be reached.
    """
    folder = Path(path).expanduser()
    if folder.exists():
        return folder
    if path.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(path):
        raise InputError(f"model {path}: no such folder: give a model folder or a Hub id")
    folder = _download(path, _FIRST)
    if (folder / INDEX).exists() and not (folder / WEIGHTS).exists():
        folder = _download(path, shard_names(folder), revision=folder.name)
    return folder


def _download(name: str, files: tuple[str, ...] | list[str], revision: str | None = None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        with no_bars():
            return Path(snapshot_download(name, revision=revision, allow_patterns=list(files)))
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise InputError(
            f"model {name}: no such folder, and no such model on the Hub: {one_line(error)}: give "
            "the path of a model folder"
        ) from error
    except OSError as error:
        raise UnavailableError(
            f"model {name}: no such folder, and the Hub cannot be reached: give the path of a "
            "model folder"
        ) from error
