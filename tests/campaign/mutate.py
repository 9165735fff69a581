"""Random damage: to JSON values with regard to their structure, to bytes, and to files."""

import copy
import json
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

BORDERS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 53, 1 << 63, (1 << 64) - 1)
ODD: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 255, 65_537, 10**7, 2**31, 2**63, 2**64, -(2**63), 10**30),
    *(0.0, -0.0, 0.5, 1e-300, 1e300, float("nan"), float("inf"), float("-inf")),
    *(None, True, False, "", " ", "0", "a", "##", "x" * 3000, "\x00", "\ud800"),
    *("../../etc/passwd", "weights.bin", "/dev/zero", "float16", "auto", "é\u202e🙂"),
    *([], {}, [[]], {"": None}, ["a", "b"]),
)
_DEEP = b"[" * 50_000 + b"]" * 50_000
_WHOLE = (b"", b"\n\n\n", b"[]", b"[[]]", b"{}", b"null", b",,\n", b"\xff\xfe{}", _DEEP)
_INSERTED = (b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\xff", b"\r", b"\n", b"\xc3", b'"', b"\x1a")
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
    """Return bytes with one change: a part flipped, cut, doubled, overwritten, or put in."""
    begin = rng.randrange(len(data) + 1)
    end = min(len(data), begin + rng.choice((1, 2, 8, 64, len(data))))
    part = data[begin:end]
    change = rng.randrange(7)
    if change == 0:
        return data[:begin]
    if change == 1:
        return rng.choice((*_WHOLE, rng.randbytes(len(data))))
    if change == 2 and part:
        part = bytes([part[0] ^ (1 << rng.randrange(8))]) + part[1:]
    elif change == 3:
        part = b""
    elif change == 4:
        part *= 2
    elif change == 5:
        part = rng.choice((b"\xff", b"\x00")) * len(part)
    else:
        part = rng.choice((*_INSERTED, _DEEP, b"9" * 100_000)) + part
    return data[:begin] + part + data[end:]


def no_file(rng: random.Random, path: Path) -> None:
    """Let ``path`` be a folder, a pipe, a device, a link to itself, or nothing."""
    path.unlink(missing_ok=True)
    kind = rng.randrange(6)
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        os.mkfifo(path)
    elif kind < 5:
        path.symlink_to(("/dev/zero", "/dev/null", path.name)[kind - 2])


def damage(rng: random.Random, path: Path) -> None:
    """Harm a file as disks, hands and strangers do: by its structure, if it has one."""
    structure = {".json": _rewrite, ".safetensors": _header}.get(path.suffix)
    if structure and rng.random() < 0.7:
        structure(rng, path)
    elif rng.random() < 0.2:
        no_file(rng, path)
    else:
        path.write_bytes(mutate_bytes(rng, path.read_bytes()))


def dumps(value: Any) -> str:
    """Return JSON, also of what is nested more than Python writes."""
    try:
        return json.dumps(value)
    except RecursionError:
        return _DEEP.decode()


def _rewrite(rng: random.Random, path: Path) -> None:
    with suppress(ValueError, RecursionError):  # damaged before
        path.write_text(dumps(mutate_json(rng, json.loads(path.read_text()))))


def _header(rng: random.Random, path: Path) -> None:
    """Change the header of weights: its length, or what it says of a tensor."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length]
    with suppress(ValueError, RecursionError):  # damaged before
        text = dumps(mutate_json(rng, json.loads(text))).encode()
    stated = len(text)
    if rng.random() < 0.25:
        stated = rng.choice((*BORDERS, length + 1, length + 8, max(length - 1, 0)))
    path.write_bytes((stated % (1 << 64)).to_bytes(8, "little") + text + data[8 + length :])


def positions(value: Any) -> list[tuple[Any, Any]]:
    """Return (container, key) of what stands in a JSON value, of long containers only the ends."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
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
    for _ in range(rng.choice((1, 1, 2, 3000))):
        value = [value] if rng.random() < 0.5 else {"x": value}
    return value


def _thinned(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict | list) and value:
        del value[rng.choice(list(value) if isinstance(value, dict) else range(len(value)))]
        return value
    return _odd(rng, value)


def _doubled(rng: random.Random, value: Any) -> Any:
    if isinstance(value, list):
        return value * 2
    if isinstance(value, dict) and value:
        value[rng.choice(list(value)) + "_"] = value[rng.choice(list(value))]
        return value
    return str(value)
