"""Datasets on the Hugging Face Hub, found with `datasets`, which caches them.

Their CSV and JSON files are read as local ones are: `datasets` guesses types, so that "007" becomes
7, "NA" null, and dates times (5.2.0).
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from tasc.data import class_labels, local
from tasc.data.foreign import one_line
from tasc.data.quiet import quiet_datasets
from tasc.data.source import Source
from tasc.data.table import Table, check_columns, choose_split
from tasc.errors import InputError, UnavailableError

_Result = TypeVar("_Result")


_GUESSED = ("datasets.packaged_modules.csv.csv", "datasets.packaged_modules.json.json")
_FREE = {"name", "version", "data_dir", "data_files", "description"}  # no options of reading
_REMOTE = re.compile(r"hf://datasets/([^@]+)@([^/]+)/(.+)")


def find_splits(source: Source) -> list[str]:
    """Return the names of the splits.

    Raises InputError for an unknown dataset or configuration, UnavailableError without the Hub.
    """
    import datasets

    path = _reachable(source.path)
    return list(_call(source, lambda: datasets.get_dataset_split_names(path, source.config)))


def read(source: Source, split: str) -> Table:
    """Read the source's columns of one split."""
    path, split = _found(source, split)
    if files := _text_files(source, path, split):
        return local.read_files(source, split, files)
    table = _load(source, path, split)
    where = f"{source.path} ({split})"
    check_columns(where, table.column_names, source.columns())
    columns = {name: _named(table, name, table[name], where) for name in source.columns()}
    return Table(split, columns, lambda position: f"{where}: row {position + 1}")


def peek(source: Source, split: str) -> tuple[list[str], Callable[[str], object]]:
    """Return the columns of a split, and a function from a column to its first value."""
    path, split = _found(source, split)
    if files := _text_files(source, path, split):
        return local.peek_files(source, split, files)
    table = _load(source, path, split)

    def first(name: str) -> object:
        return next(iter(_named(table, name, table[:1][name], source.path)), None)

    return list(table.column_names), first


def _named(table: Any, name: str, values: Sequence[Any], where: str) -> list[Any]:  # noqa: ANN401
    """Return values of a column, with names in the place of class labels."""
    convert = class_labels.of_features(table.features.to_dict(), where).get(name)
    return list(values) if convert is None else list(map(convert, values))


def _found(source: Source, split: str) -> tuple[str, str]:
    """Return the path for `datasets`, and the name of the split there."""
    return _reachable(source.path), choose_split(source.path, find_splits(source), split)


def _load(source: Source, path: str, split: str) -> Any:  # noqa: ANN401 - `datasets` has no types
    import datasets

    return _call(source, partial(datasets.load_dataset, path, source.config, split=split))


def _text_files(source: Source, path: str, split: str) -> list[Path]:
    """Download and return the CSV or JSON files of a split; empty if `datasets` has to read it."""
    import datasets

    builder = _call(source, partial(datasets.load_dataset_builder, path, source.config))
    if type(builder).__module__ not in _GUESSED:
        return []
    config, default = vars(builder.config), vars(type(builder.config)())
    if any(config[name] != default.get(name) for name in config.keys() - _FREE):
        return []  # the data set states how its files are read
    features = builder.info.features
    if features and class_labels.of_features(features.to_dict(), source.path):
        return []  # its card names the labels
    names = [str(name) for name in builder.config.data_files[split]]
    if not all(local.has_format(name) and _is_known(name) for name in names):
        return []
    return _call(source, lambda: [_downloaded(name) for name in names])


def _is_known(name: str) -> bool:
    return Path(name).is_file() or bool(_REMOTE.fullmatch(name))


def _downloaded(name: str) -> Path:
    from huggingface_hub import hf_hub_download

    match = _REMOTE.fullmatch(name)
    if match is None:
        return Path(name)
    revision = unquote(match[2])
    return Path(hf_hub_download(match[1], match[3], repo_type="dataset", revision=revision))


_ADVICE = "pass a file, a folder or another dataset"


def _reachable(path: str) -> str:
    """Return ``path``, or the folder of its downloaded files in offline mode.

    Checks for the dataset once: `datasets` retries for 20 s before it fails.
    """
    from huggingface_hub import HfApi, errors

    try:
        with quiet_datasets():
            HfApi().dataset_info(path, timeout=10)
            return path
    except errors.OfflineModeIsEnabled:  # a cached copy is used if there is one
        return _snapshot(path) or path
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise InputError(
            f"{path} is neither a local file or folder nor a dataset on the Hub: pass another "
            "path, or set TASC_DATA to the folder that holds it"
        ) from None
    except Exception:  # the errors depend on the client's HTTP library
        raise UnavailableError(
            f"{path} is not a local file or folder, and the Hub cannot be reached: pass a local "
            "path, set TASC_DATA to the folder that holds it, or set HF_HUB_OFFLINE=1 to use a "
            "cached copy"
        ) from None


def _snapshot(path: str) -> str:
    """Return the folder of files that were downloaded; empty without data files."""
    from huggingface_hub import errors, snapshot_download

    try:
        folder = Path(snapshot_download(path, repo_type="dataset", local_files_only=True))
    except (errors.LocalEntryNotFoundError, errors.HFValidationError, OSError):
        return ""
    has_data = any(local.has_format(str(file)) for file in folder.rglob("*") if file.is_file())
    return str(folder) if has_data else ""


def _call(source: Source, action: Callable[[], _Result]) -> _Result:
    try:
        with quiet_datasets():
            return action()
    except ConnectionError as error:
        raise UnavailableError(f"{source.path}: {one_line(error)}; {_ADVICE}") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{source.path}: {one_line(error)}; {_ADVICE}") from None
