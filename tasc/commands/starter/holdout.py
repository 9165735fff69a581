"""Splits that data do not have."""

import hashlib
import json
from collections.abc import Iterable, Sequence

from tasc.data.chat import turns
from tasc.data.corpus import read_table, refuse_empty
from tasc.data.source import Source
from tasc.errors import InputError

FEWEST = 20  # different examples; a tenth of fewer is one
_HELD_OUT = ("validation", "test")
_SHARE = 10  # one in so many is held out for each split


def hold_out(source: Source, seed: int, existing: Sequence[str]) -> dict[str, list[str]]:
    """Return lines of JSON of three splits; the missing ones take a tenth of train each.

    Only the columns that are read are kept, and the rows with an output. Which examples are held
    out follows from what they hold and the seed: equal ones stay together, and no test example is
    trained on. Raises InputError if too few examples differ.
    """
    lines = _lines(source, "train")
    if (found := len(set(lines))) < FEWEST:
        raise InputError(
            f"{source.path} has {found:,} different examples with an output, too few to hold out "
            f"a tenth of for validation and test: add some, to {FEWEST} or more"
        )
    divided = _divided(lines, seed, [name for name in _HELD_OUT if name not in existing])
    return divided | {name: _lines(source, name) for name in existing if name != "train"}


def by_hash(texts: Iterable[str], seed: int) -> list[str]:
    """Return texts in an order that follows from the texts and the seed, not from theirs."""
    return sorted(texts, key=lambda text: hashlib.sha256(f"{seed}\0{text}".encode()).digest())


def _lines(source: Source, split: str) -> list[str]:
    table = read_table(source, split)
    columns = source.columns()
    if source.chat:
        answered = sorted({row for row, _ in turns(source, table)[0]})
    else:
        texts = {name: table.texts(name) for name in columns}  # refuses what is no text
        outputs = texts[source.output_column]
        answered = [row for row, output in enumerate(outputs) if output.strip()]
    refuse_empty(source, split, len(answered), table.length)
    rows = ({name: table.columns[name][row] for name in columns} for row in answered)
    return [json.dumps(row, ensure_ascii=False, default=str) for row in rows]


def _divided(lines: list[str], seed: int, names: Sequence[str]) -> dict[str, list[str]]:
    """Hold out one in ``_SHARE`` of the different lines for each of ``names``."""
    different = by_hash(set(lines), seed)
    each = max(1, len(different) // _SHARE)
    of = {
        line: name for i, name in enumerate(names) for line in different[i * each : (i + 1) * each]
    }
    splits: dict[str, list[str]] = {name: [] for name in ("train", *names)}
    for line in lines:
        splits[of.get(line, "train")].append(line)
    return splits
