"""Splits that data do not have."""

import hashlib
import json
from collections.abc import Iterable, Sequence

from tasc.data.corpus import origins_of, read_table, refuse_empty
from tasc.data.division import FEWEST_DIFFERENT, TRAIN, Origin, divide, missing_splits
from tasc.data.source import Source
from tasc.errors import InputError


def hold_out(source: Source, seed: int, existing: Sequence[str]) -> dict[str, list[str]]:
    """Return lines of JSON of three splits; the missing ones take a tenth of train each.

    Only the columns that are read are kept, and the rows with an output. Which rows are held out
    follows from their inputs and the seed: rows with equal inputs stay together, so no test input
    is trained on. Raises InputError if too few examples differ.
    """
    rows = _rows(source, TRAIN)
    if (count := len({origin for origin, _ in rows})) < FEWEST_DIFFERENT:
        raise InputError(
            f"{source.path} has {count:,} different examples with an output, too few to hold out "
            f"a tenth of for validation and test: add some, to {FEWEST_DIFFERENT} or more"
        )
    names = missing_splits(existing)
    division = divide((origin for origin, _ in rows), names, seed)
    splits: dict[str, list[str]] = {name: [] for name in (TRAIN, *names)}
    for origin, line in rows:
        splits[division.split_of(origin)].append(line)
    others = [name for name in existing if name != TRAIN]
    return splits | {name: [line for _, line in _rows(source, name)] for name in others}


def by_hash(texts: Iterable[str], seed: int) -> list[str]:
    """Return texts in an order that follows from the texts and the seed, not from theirs."""
    return sorted(texts, key=lambda text: hashlib.sha256(f"{seed}\0{text}".encode()).digest())


def _rows(source: Source, split: str) -> list[tuple[Origin, str]]:
    """Return the rows of a split that have an output, each as a line of JSON."""
    table = read_table(source, split)
    columns = source.columns()
    if not source.chat:
        for name in columns:
            table.texts(name)  # refuses what is no text
    origins = origins_of(source, table)
    refuse_empty(source, split, len(origins), table.length)
    rows = ((origins[row], {name: table.columns[name][row] for name in columns}) for row in origins)
    return [(origin, json.dumps(row, ensure_ascii=False, default=str)) for origin, row in rows]
