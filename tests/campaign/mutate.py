"""Random damage: to JSON values with regard to their structure, to bytes and files without."""

import copy
import os
import random
from pathlib import Path
from typing import Any

ODD: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 255, 65_537, 10**7, 2**31, 2**63, 2**64, -(2**63), 10**30),
    *(0.0, -0.0, 0.5, 1e-300, 1e300, float("nan"), float("inf"), float("-inf")),
    *(None, True, False, "", " ", "0", "x" * 3000, "\x00", "\ud800", "../../etc/passwd"),
    *("weights.bin", "/dev/zero", "float16", "auto", "é\u202e🙂", [], {}, [[]], {"": None}),
)
_DEEP = 3000
_MOST = 8  # entries looked at from each end of a container: vocabularies are not all there is


def mutate_json(rng: random.Random, value: Any) -> Any:
    """Return a copy of a JSON value with one change somewhere in it.

    The change respects the structure: one of all positions, at any depth, gets another value, loses
    what it has, moves, or is nested. Strings may hold lone surrogates and floats be infinite.
    """
    held = [copy.deepcopy(value)]
    container, key = rng.choice(positions(held))
    old = container[key]
    container[key] = rng.choice((_odd, _near, _nested, _thinned, _doubled))(rng, old)
    return held[0]


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with one change: bits flipped, a part cut, doubled, overwritten, or inserted."""
    begin = rng.randrange(len(data) + 1)
    end = min(len(data), begin + rng.choice((1, 2, 8, 64, len(data))))
    part = data[begin:end]
    change = rng.randrange(6)
    if change == 0 and part:
        part = bytes([part[0] ^ (1 << rng.randrange(8))]) + part[1:]
    elif change == 1:
        part = b""
    elif change == 2:
        part *= 2
    elif change == 3:
        part = rng.choice((b"\xff", b"\x00")) * len(part)
    elif change == 4:
        part = rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\r", b"\xc3")) + part
    else:
        return data[:begin]
    return data[:begin] + part + data[end:]


def no_file(rng: random.Random, path: Path) -> None:
    """Let ``path`` be a folder, a pipe, a device without end, or nothing."""
    path.unlink(missing_ok=True)
    kind = rng.randrange(4)
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        os.mkfifo(path)
    elif kind == 2:
        path.symlink_to("/dev/zero")


def positions(value: Any) -> list[tuple[Any, Any]]:
    """Return (container, key) of what stands in a JSON value, of long containers only the ends."""
    found: list[tuple[Any, Any]] = []
    waiting = [value] if isinstance(value, dict | list) else []
    while waiting:
        container = waiting.pop()
        keys = list(container) if isinstance(container, dict) else list(range(len(container)))
        for key in keys if len(keys) <= 2 * _MOST else keys[:_MOST] + keys[-_MOST:]:
            found.append((container, key))
            if isinstance(container[key], dict | list):
                waiting.append(container[key])
    return found


def _odd(rng: random.Random, _: Any) -> Any:
    return copy.deepcopy(rng.choice(ODD))


def _near(rng: random.Random, value: Any) -> Any:
    """A value of the same type that is a little off."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value - 1, value + 1, -value, value * 2, value // 2, value * 1000))
    if isinstance(value, float):
        return rng.choice((-value, value * 1e6, value / 1e6))
    if isinstance(value, str):
        return rng.choice((value.upper(), value[:-1], value + "x", f"../{value}", f"/{value}"))
    return _odd(rng, value)


def _nested(rng: random.Random, value: Any) -> Any:
    for _ in range(rng.choice((1, 1, 2, _DEEP))):
        value = [value] if rng.random() < 0.5 else {"x": value}
    return value


def _thinned(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value:
        del value[rng.choice(list(value))]
    elif isinstance(value, list) and value:
        del value[rng.randrange(len(value))]
    else:
        return _odd(rng, value)
    return value


def _doubled(rng: random.Random, value: Any) -> Any:
    if isinstance(value, list):
        return value * 2
    if isinstance(value, dict) and value:
        value[rng.choice(list(value)) + "_"] = value[rng.choice(list(value))]
        return value
    return str(value)
