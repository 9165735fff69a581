"""Names of class labels, which `datasets` stores as numbers, with the names beside the columns.

Parquet and Arrow files have them in the schema's metadata, as JSON: ``{"info": {"features":
{COLUMN: FEATURE}}}``. A feature is ``{"_type": "ClassLabel", "names": [...]}``, another type such
as ``{"_type": "List", "feature": FEATURE}``, an object of features, or a list of one feature.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tasc.data.foreign import one_line
from tasc.errors import InputError

Convert = Callable[[Any], Any]  # from a value of a column to the value with names
_KEY = b"huggingface"
_UNLABELLED = -1  # in `datasets`
_LISTS = ("List", "LargeList", "Sequence")


def of_metadata(metadata: Mapping[bytes, bytes] | None, where: str) -> dict[str, Convert]:
    """Return a function for each column with class labels, from the metadata of an Arrow schema.

    A function keeps values of other types, and raises InputError for a number without a name.
    Raises InputError if the metadata are damaged; ``where`` is used in errors.
    """
    if not metadata or _KEY not in metadata:
        return {}
    try:
        stated = _object(json.loads(metadata[_KEY]))
        return of_features(_object(_object(stated.get("info")).get("features")), where)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where}: the metadata of `datasets` are damaged: {one_line(error)}; write the file "
            "again with datasets"
        ) from None


def of_features(features: Mapping[str, Any], where: str) -> dict[str, Convert]:
    """Return the functions of ``of_metadata`` for features as JSON values.

    Raises ValueError if the names of a class label are no list of texts.
    """
    conversions = {name: _conversion(feature, where) for name, feature in features.items()}
    return {name: convert for name, convert in conversions.items() if convert is not None}


def _object(value: object) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{value!r:.60} is not an object")
    return value or {}


def _conversion(feature: object, where: str) -> Convert | None:
    """Return the function of a feature; None if there is no class label in it."""
    if isinstance(feature, list) and len(feature) == 1:
        return _of_list(feature[0], where)
    if not isinstance(feature, Mapping):
        return None
    kind = feature.get("_type")
    if kind == "ClassLabel":
        return _of_label(feature.get("names"), where)
    if kind in _LISTS:
        return _of_list(feature.get("feature"), where)
    return None if isinstance(kind, str) else _of_object(feature, where)


def _of_label(names: object, where: str) -> Convert:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"the names of a class label are {names!r:.60}")

    def name_of(value: object) -> object:
        if value == _UNLABELLED:
            return None
        if not isinstance(value, int):
            return value
        if not 0 <= value < len(names):
            raise InputError(
                f"{where}: a class label is {value}, but there are {len(names)} names: write the "
                "file again with datasets"
            )
        return names[value]

    return name_of


def _of_list(feature: object, where: str) -> Convert | None:
    convert = _conversion(feature, where)
    if convert is None:
        return None
    # A Sequence of objects is stored as an object of lists.
    convert_lists = None
    if isinstance(feature, Mapping) and not isinstance(feature.get("_type"), str):
        convert_lists = _of_object({name: [inner] for name, inner in feature.items()}, where)

    def converted(values: Any) -> Any:  # noqa: ANN401 - any value
        if isinstance(values, list):
            return [convert(value) for value in values]
        return convert_lists(values) if convert_lists else values

    return converted


def _of_object(features: Mapping[str, Any], where: str) -> Convert | None:
    converts = of_features(features, where)
    if not converts:
        return None

    def converted(row: Any) -> Any:  # noqa: ANN401 - any value
        if not isinstance(row, Mapping):
            return row
        return {k: converts[k](v) if k in converts else v for k, v in row.items()}

    return converted
