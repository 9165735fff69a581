"""Random tables, and the dialects in which Python's module csv writes them."""

import csv
import io
from random import Random
from typing import Any

ENDS = ["\n", "\r\n"]
SEPARATORS = [",", ";", "\t", "|"]
PIECES = [
    *(
        "a",
        "play jazz",
        "x, y",
        "1,5",
        "1;2",
        'say "hi"',
        '"',
        "a\nb",
        "a\r\nb",
        "\n",
        "|",
        "tab\t",
    ),
    *("ü", "日本", "😀", "  padded ", "'", "#", "=1+1", "\\", "null", "0"),
]


def text(rng: Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 4)))


def names(rng: Random, count: int) -> list[str]:
    """Return different names of columns, input and output among them."""
    others = [f"{text(rng)} {i}" for i in range(count - 2)]
    found = (
        ["input", "output", *others]
        if rng.random() < 0.3
        else [f"input ({text(rng)})", f"output ({text(rng)})", *others]
    )
    rng.shuffle(found)
    return found


def table(rng: Random) -> list[list[str]]:
    """Return a header and rows."""
    width = rng.randrange(2, 6)
    rows = [[text(rng) for _ in range(width)] for _ in range(rng.randrange(2, 8))]
    return [names(rng, width), *rows]


def written(rng: Random, rows: list[list[str]], separator: str) -> bytes:
    """Write rows as a program might: quotes where needed or everywhere, a mark, line ends."""
    target = io.StringIO(newline="")
    quoting: Any = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    end = rng.choice(ENDS)
    csv.writer(target, delimiter=separator, quoting=quoting, lineterminator=end).writerows(rows)
    found = target.getvalue()
    if rng.random() < 0.2:
        found = found.removesuffix(end)
    return found.encode("utf-8-sig" if rng.random() < 0.3 else "utf-8")
