"""Datasets on the Hugging Face Hub, read with `datasets`, which caches them."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from tasc.data.foreign import one_line
from tasc.data.quiet import quiet_datasets
from tasc.data.source import Source
from tasc.data.table import Table, check_columns, choose_split
from tasc.errors import InputError, UnavailableError

_Result = TypeVar("_Result")


def find_splits(source: Source) -> list[str]:
    """Return the names of the splits.

    Raises InputError for an unknown dataset or configuration, UnavailableError without the Hub.
    """
    import datasets

    _check_reachable(source.path)
    return list(_call(source, lambda: datasets.get_dataset_split_names(source.path, source.config)))


def read(source: Source, split: str) -> Table:
    """Read the source's columns of one split."""
    split, table = _load(source, split)
    check_columns(f"{source.path} ({split})", table.column_names, source.columns())
    columns = {name: list(table[name]) for name in source.columns()}
    return Table(split, columns, lambda position: f"{source.path} ({split}): row {position + 1}")


def peek(source: Source, split: str) -> tuple[list[str], Callable[[str], object]]:
    """Return the columns of a split, and a function from a column to its first value."""
    _, table = _load(source, split)
    return list(table.column_names), lambda name: table[0][name] if len(table) else None


def _load(source: Source, split: str) -> tuple[str, Any]:
    import datasets

    split = choose_split(source.path, find_splits(source), split)
    load = partial(datasets.load_dataset, source.path, source.config, split=split)
    return split, _call(source, load)


_ADVICE = "pass a file, a folder or another dataset"


def _check_reachable(path: str) -> None:
    """Check for the dataset once: `datasets` retries for 20 s before it fails."""
    from huggingface_hub import HfApi, errors

    try:
        with quiet_datasets():
            HfApi().dataset_info(path, timeout=10)
    except errors.OfflineModeIsEnabled:  # a cached copy is used if there is one
        return
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


def _call(source: Source, action: Callable[[], _Result]) -> _Result:
    try:
        with quiet_datasets():
            return action()
    except ConnectionError as error:
        raise UnavailableError(f"{source.path}: {one_line(error)}; {_ADVICE}") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{source.path}: {one_line(error)}; {_ADVICE}") from None
