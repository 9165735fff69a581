"""Random JSON values, and the ways in which json.dumps writes them."""

from random import Random
from typing import Any

CHARACTERS = [
    *("a", "b", "Z", "0", " ", '"', "\\", "/", "\n", "\t", "\b", "\0", "\x1f", "\x7f", "\x80"),
    *("ü", "ß", "日", "\u2028", "\ud7ff", "\ue000", "\uffff", "😀", "\U0010ffff", "{", "}", "["),
    *("]", ":", ",", ".", "*", "(", ")", "|", "~", "-", "^", "$", "&", "#", "?", "+", "%"),
]
NUMBERS = [
    *(0, 1, -1, 1.0, -0.0, 1.5, 1e16, 1e-5, 5e-324, 1.7976931348623157e308, 10**30, 0.1, 2**53),
    *(123456789012345678, 1e22, -2.5e-7, 3e300, -1e17),
]
SEPARATORS = [None, (",", ":"), (", ", ": "), (",", ": "), (" , ", " : ")]
INDENTS = [None, None, None, 0, 1, 2, 4, "\t"]


def text(rng: Random) -> str:
    return "".join(rng.choice(CHARACTERS) for _ in range(rng.randrange(6)))


def value(rng: Random, depth: int = 0) -> Any:
    kind = rng.randrange(10 if depth < 3 else 6)
    if kind < 3:
        return text(rng)
    if kind < 5:
        return rng.choice([*NUMBERS, None, True, False, rng.uniform(-1e3, 1e3)])
    if kind < 6:
        return rng.randrange(-(10**6), 10**6)
    if kind < 8:
        return {text(rng): value(rng, depth + 1) for _ in range(rng.randrange(5))}
    return [value(rng, depth + 1) for _ in range(rng.randrange(4))]


def document(rng: Random) -> Any:
    """Return an object or an array."""
    if rng.random() < 0.7:
        return {text(rng): value(rng) for _ in range(rng.randrange(4))}
    return [value(rng) for _ in range(rng.randrange(4))]


def changed(rng: Random, old: Any) -> Any:
    """Return a value that differs somewhere: another, a missing or a further part."""
    if old and isinstance(old, dict) and rng.random() < 0.8:
        new, name, way = dict(old), rng.choice(list(old)), rng.random()
        if way < 0.2:
            del new[name]
        elif way < 0.4:
            new[text(rng)] = value(rng, 2)
        else:
            new[name] = changed(rng, old[name])
        return new
    if old and isinstance(old, list) and rng.random() < 0.8:
        items, i = list(old), rng.randrange(len(old))
        items[i] = changed(rng, items[i])
        return items
    return value(rng, 2)


def broken(rng: Random, written: str) -> str:
    """Return a text with a character more, less, or another."""
    at = rng.randrange(len(written))
    inserted = rng.choice(["", *CHARACTERS, "\\", "\\u00fc", "\\ud83d", '"', "1", ".0", "null"])
    return written[:at] + inserted + written[at + rng.randrange(2) :]


def settings(rng: Random) -> dict[str, Any]:
    """Return arguments of json.dumps."""
    return {
        "ensure_ascii": rng.random() < 0.5,
        "indent": rng.choice(INDENTS),
        "separators": rng.choice(SEPARATORS),
    }
