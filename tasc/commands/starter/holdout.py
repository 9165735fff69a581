"""Splits for data that come in one."""

import hashlib
import json

from tasc.data.chat import turns
from tasc.data.corpus import read_table
from tasc.data.source import Source
from tasc.errors import InputError

FEWEST = 20  # different examples; a tenth of fewer is one
_HELD_OUT = ("validation", "test")
_SHARE = 10  # one in so many is held out for each split


def hold_out(source: Source, seed: int) -> dict[str, list[str]]:
    """Divide the one split of ``source`` into three, two of them a tenth; return lines of JSON.

    Only the columns that are read are kept, and the rows with an output. Which examples are held
    out follows from what they hold and the seed: equal ones stay together, and no test example is
    trained on. Raises InputError if too few examples differ.
    """
    table = read_table(source, "train")
    columns = source.columns()
    if source.chat:
        answered = sorted({row for row, _ in turns(source, table)[0]})
    else:
        outputs = table.texts(source.output_column)
        answered = [row for row, output in enumerate(outputs) if output.strip()]
    lines = [
        json.dumps(
            {name: table.columns[name][row] for name in columns}, ensure_ascii=False, default=str
        )
        for row in answered
    ]
    if (found := len(set(lines))) < FEWEST:
        raise InputError(
            f"{source.path} has {found:,} different examples with an output, too few to hold out "
            f"a tenth of for validation and test: add some, to {FEWEST} or more"
        )
    return _divided(lines, seed)


def _divided(lines: list[str], seed: int) -> dict[str, list[str]]:
    """Hold out one in ``_SHARE`` of the different lines for each of ``_HELD_OUT``."""
    different = sorted(
        set(lines), key=lambda line: hashlib.sha256(f"{seed}\0{line}".encode()).digest()
    )
    each = max(1, len(different) // _SHARE)
    of = {
        line: name
        for i, name in enumerate(_HELD_OUT)
        for line in different[i * each : (i + 1) * each]
    }
    splits: dict[str, list[str]] = {name: [] for name in ("train", *_HELD_OUT)}
    for line in lines:
        splits[of.get(line, "train")].append(line)
    return splits
