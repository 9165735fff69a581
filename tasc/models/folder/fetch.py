"""Find a model's folder, convert its GGUF file, or download its files from the Hub."""

import re
from pathlib import Path

from tasc.data.foreign import one_line
from tasc.data.quiet import no_bars
from tasc.errors import InputError, UnavailableError
from tasc.files.packaged import gguf_file
from tasc.models.folder.files import CONFIG, GENERATION, INDEX, WEIGHTS, shard_names

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_FIRST = (CONFIG, GENERATION, "adapter_config.json", WEIGHTS, INDEX)


def model_folder(path: str) -> Path:
    """Return the model folder ``path``, or the folder in the Hub's cache for a Hub id.

    A GGUF file, or the one of a packaged model, is converted once, into tasc's cache. Raises
    InputError if there is no such folder and no such model on the Hub, and UnavailableError if the
    Hub cannot be reached, or the model's package is not installed.
    """
    folder = local_folder(path)
    if folder.exists():
        return folder
    if path.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(path):
        raise InputError(f"model {path}: no such folder: give a model folder or a Hub id")
    folder = _download(path, _FIRST)
    if (folder / INDEX).exists() and not (folder / WEIGHTS).exists():
        folder = _download(path, shard_names(folder), revision=folder.name)
    return folder


def local_folder(path: str) -> Path:
    """Do as ``model_folder``, but return the path of a missing folder instead of downloading."""
    if file := gguf_file(path):
        from tasc.models.folder.gguf_model import converted

        return converted(file)
    return Path(path).expanduser()


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
