"""Columns of a split, and their values as text or words."""

import json
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal

from tasc.errors import InputError

_SCALARS = (str, int, float, bool, Decimal, date, time)  # the last three from Parquet files
_SHOWN = 20  # columns listed in an error
VALIDATION_NAMES = ("validation", "valid", "val", "dev")


@dataclass(frozen=True)
class Table:
    """Some columns of a split."""

    split: str  # the split's name
    columns: Mapping[str, Sequence[object]]  # values by column, all of the same length
    where: Callable[[int], str]  # the position of a row, for errors ("FILE:LINE", "FILE: row 3")

    @property
    def length(self) -> int:
        return max(map(len, self.columns.values()), default=0)

    def texts(self, name: str) -> list[str]:
        """Return a column as text: lists are joined by spaces, null is empty."""
        return [self.text(name, i, value) for i, value in enumerate(self.columns[name])]

    def words(self, name: str) -> list[tuple[str, ...]] | None:
        """Return the words of a column of lists; None if no value is a list."""
        values = self.columns[name]
        if not any(isinstance(value, list) for value in values):
            return None
        return [_words(value) for value in values]

    def text(self, name: str, position: int, value: object) -> str:
        """Return a value of column ``name`` as text; InputError if it cannot be text."""
        if isinstance(value, list) and all(isinstance(word, _SCALARS) for word in value):
            value = " ".join([_written(word) for word in value])
        if value is not None and not isinstance(value, _SCALARS):
            raise InputError(
                f"{self.where(position)}: column {name!r} holds {reprlib.repr(value)}: "
                "write text, a number or a list of words"
            )
        if isinstance(value, float) and math.isinf(value):
            raise InputError(
                f"{self.where(position)}: column {name!r} holds a number beyond 1.8e308, or "
                f"infinity: write it as text, such as {json.dumps(str(value))}"
            )
        text = _written(value)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{self.where(position)}: column {name!r} holds half of a surrogate pair "
                f"(\\u{ord(text[error.start]):04x}): fix the escape"
            ) from None
        return text


def check_columns(where: str, existing: Iterable[str], wanted: Sequence[str]) -> None:
    """Raise InputError if a wanted column does not exist."""
    columns = list(existing)
    missing = [name for name in wanted if name not in columns]
    if missing:
        names = map(str, columns[:_SHOWN])
        shown = [n if n.isprintable() and n == n.strip() else repr(n) for n in names]
        listed = ", ".join(shown)
        listed += f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
        raise InputError(
            f"{where}: no column {missing[0]!r}; it has {listed or 'none'}: "
            "choose one with --input-column, --output-column or in the template"
        )


def choose_split(path: str, existing: Sequence[str], split: str) -> str:
    """Return the name of a split; "valid", "val" and "dev" mean "validation"."""
    same: Sequence[str] = VALIDATION_NAMES if split in VALIDATION_NAMES else ()
    names = [name for name in (split, *same) if name in existing]
    if not names:
        listed = ", ".join(existing) or "none"
        raise InputError(f"{path}: no split {split!r}; it has {listed}: choose one of them")
    return names[0]


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(map(_written, value))
    return tuple(_written(value).split())


def _written(value: object) -> str:
    """Return a value as JSON, a text unchanged; null and NaN, as pandas writes it, as nothing."""
    if value is None or value != value:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
