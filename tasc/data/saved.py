"""Folders that `datasets` wrote with ``save_to_disk``: a data set, or one per split."""

import re
from pathlib import Path

from tasc.data.foreign import json_object, read_whole
from tasc.errors import InputError

_STATE, _SPLITS = "state.json", "dataset_dict.json"
_MOST = 1 << 24  # bytes of either
_PLAIN = re.compile(r"[\w-][\w. -]*")  # no folder


def saved_splits(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each split; a data set alone is the split "train".

    Empty if `datasets` did not write the folder. Raises InputError if it is not complete.
    """
    if (folder / _STATE).is_file():
        return {"train": _files(folder)}
    if not (folder / _SPLITS).is_file():
        return {}
    names = _object(folder / _SPLITS).get("splits")
    if not isinstance(names, list) or not names or not all(map(_is_plain, names)):
        raise InputError(f"{folder / _SPLITS} lists no splits: save the data set again")
    return {str(name): _files(folder / str(name)) for name in names}


def _files(folder: Path) -> list[Path]:
    """Return the Arrow files of a data set, in order."""
    if not (folder / _STATE).is_file():
        raise InputError(f"{folder} has no {_STATE}: copy the folder again, or save it again")
    listed = _object(folder / _STATE).get("_data_files")
    entries = listed if isinstance(listed, list) else []
    names = [entry.get("filename") for entry in entries if isinstance(entry, dict)]
    if not names or len(names) < len(entries) or not all(map(_is_plain, names)):
        raise InputError(f"{folder / _STATE} lists no data files: save the data set again")
    files = [folder / str(name) for name in names]
    missing = next((file for file in files if not file.is_file()), None)
    if missing is not None:
        raise InputError(f"{missing} is missing: copy the folder again, or save it again")
    return files


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and bool(_PLAIN.fullmatch(name))


def _object(file: Path) -> dict[str, object]:
    return json_object(read_whole(file, _MOST), str(file))
