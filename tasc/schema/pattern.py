"""A pattern of a schema as the expression of the JSON strings whose values it matches."""

import re
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from tasc.schema.spelling import CHARACTER, character, literal

# The parser of Python's own expressions, and the kinds of items that it finds.
parser: Any = import_module("re._parser")
codes: Any = import_module("re._constants")
Span = tuple[int, int]  # code points, both ends included
_LAST = 0x10FFFF
_DIGITS: list[Span] = [(48, 57)]
_WORDS: list[Span] = [*_DIGITS, (65, 90), (95, 95), (97, 122)]
_SPACES: list[Span] = [(9, 13), (32, 32), (160, 160), (0x1680, 0x1680), (0x2000, 0x200A)]
_SPACES += [(0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)]
_SPACES += [(0xFEFF, 0xFEFF)]
_LINE_ENDS: list[Span] = [(10, 10)]
_CLASSES = {"DIGIT": _DIGITS, "WORD": _WORDS, "SPACE": _SPACES}
_LARGEST = 65_535  # bound of a repetition


class UnsupportedError(Exception):
    """What a grammar of ours cannot express; llguidance reads such a part of a schema itself."""


def expression(pattern: str, ensure_ascii: bool | None) -> str:
    """Return the expression of strings, with quotes, that contain a match of ``pattern``.

    Characters have the spellings of ``ensure_ascii``. Raises UnsupportedError for lookarounds,
    back references, flags, and anchors inside a pattern.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parser.parse(pattern)
    except (re.error, OverflowError, RecursionError):
        raise UnsupportedError(f"pattern {pattern!r:.60}") from None
    if tree.state.flags & ~re.UNICODE.value:
        raise UnsupportedError(f"flags in the pattern {pattern!r:.60}")
    return f'"{_searched(list(tree), ensure_ascii)}"'


def _searched(items: Sequence[Any], ensure_ascii: bool | None) -> str:
    """Return a pattern that may match anywhere, where it is not anchored."""
    for i, item in enumerate(items):
        if any(map(_anchored, ways := _ways(item))):
            rest = items[i + 1 :]
            each = [_searched([*items[:i], *way, *rest], ensure_ascii) for way in ways]
            return f"(?:{'|'.join(each)})"
    begins = bool(items) and items[0] in _anchors("AT_BEGINNING", "AT_BEGINNING_STRING")
    items = items[begins:]
    ends = bool(items) and items[-1] in _anchors("AT_END", "AT_END_STRING")
    inner = _sequence(items[: len(items) - ends], ensure_ascii)
    free = f"{CHARACTER}*"
    return ("" if begins else free) + inner + ("" if ends else free)


def _ways(item: Any) -> list[list[Any]]:  # noqa: ANN401
    """Return the alternatives of a branch or a group; none of other items."""
    kind, value = item
    if kind is codes.BRANCH:
        return [list(way) for way in value[1]]
    if kind is codes.SUBPATTERN and not value[1] and not value[2]:
        return [list(value[3])]
    return []


def _anchored(items: Sequence[Any]) -> bool:
    return any(item[0] is codes.AT or any(map(_anchored, _ways(item))) for item in items)


def _anchors(*names: str) -> list[Any]:
    return [(codes.AT, getattr(codes, name)) for name in names]


def _sequence(items: Iterable[Any], ensure_ascii: bool | None) -> str:
    return "".join(_item(kind, value, ensure_ascii) for kind, value in items)


def _item(kind: Any, value: Any, ensure_ascii: bool | None) -> str:  # noqa: ANN401
    if kind is codes.LITERAL:
        return _spans([(value, value)], ensure_ascii)
    if kind is codes.NOT_LITERAL:
        return _spans(_others([(value, value)]), ensure_ascii)
    if kind is codes.ANY:
        return _spans(_others(_LINE_ENDS), ensure_ascii)
    if kind is codes.IN:
        return _spans(_set(value), ensure_ascii)
    if kind is codes.BRANCH:
        return f"(?:{'|'.join(_sequence(way, ensure_ascii) for way in value[1])})"
    if kind is codes.SUBPATTERN:
        _, added, removed, inner = value
        if not added and not removed:
            return f"(?:{_sequence(inner, ensure_ascii)})"
    if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        return _repeated(value, ensure_ascii)
    raise UnsupportedError(f"{str(kind).lower()} in a pattern")


def _repeated(value: Any, ensure_ascii: bool | None) -> str:  # noqa: ANN401
    fewest, most, inner = value
    if fewest > _LARGEST or (most is not codes.MAXREPEAT and most > _LARGEST):
        raise UnsupportedError("a repetition in a pattern")
    bound = "" if most is codes.MAXREPEAT else int(most)
    return f"(?:{_sequence(inner, ensure_ascii)}){{{int(fewest)},{bound}}}"


def _set(items: Sequence[Any]) -> list[Span]:
    spans: list[Span] = []
    negated = False
    for kind, value in items:
        if kind is codes.NEGATE:
            negated = True
        elif kind is codes.LITERAL:
            spans.append((value, value))
        elif kind is codes.RANGE:
            spans.append(value)
        elif kind is codes.CATEGORY:
            spans += _category(str(value))
        else:
            raise UnsupportedError(f"{str(kind).lower()} in a pattern")
    return _others(spans) if negated else spans


def _category(name: str) -> list[Span]:
    """Return the characters of ``\\d`` and its like, as JSON Schema reads them: ASCII alone."""
    plain = name.removeprefix("CATEGORY_").removeprefix("NOT_")
    if plain not in _CLASSES:
        raise UnsupportedError(f"{name.lower()} in a pattern")
    members = _CLASSES[plain]
    return _others(members) if "NOT_" in name else members


def _others(spans: Sequence[Span]) -> list[Span]:
    """Return all other characters."""
    gaps: list[Span] = []
    begin = 0
    for first, last in sorted(spans):
        if first > begin:
            gaps.append((begin, first - 1))
        begin = max(begin, last + 1)
    return [*gaps, (begin, _LAST)] if begin <= _LAST else gaps


def _spans(spans: Sequence[Span], ensure_ascii: bool | None) -> str:
    """Return the expression of one character of ``spans``, in its spellings."""
    ways: list[str] = []
    for first, last in spans:
        for low, high in _parts(first, last):
            if high < 0xA0 or low == high:
                ways += [character(chr(c), ensure_ascii) for c in range(low, high + 1)]
            else:
                ways += _wide(low, high, ensure_ascii)
    if not ways:
        raise UnsupportedError("a set without a character in a pattern")
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"


def _parts(first: int, last: int) -> list[Span]:
    """Cut a span where spellings change, without surrogates."""
    borders = [(0, 0x9F), (0xA0, 0xD7FF), (0xE000, 0xFFFF), (0x10000, _LAST)]
    cut = [(max(first, low), min(last, high)) for low, high in borders]
    return [span for span in cut if span[0] <= span[1]]


def _wide(low: int, high: int, ensure_ascii: bool | None) -> list[str]:
    ways = []
    if ensure_ascii is not True:
        ways.append(f"[{literal(chr(low))}-{literal(chr(high))}]")
    if ensure_ascii is not False:
        any_case = ensure_ascii is None
        if high < 0x10000:
            ways += [r"\\u" + digits for digits in _hexadecimal(low, high, 4, any_case)]
        else:
            ways += _pairs(low, high, any_case)
    return ways


def _pairs(low: int, high: int, any_case: bool) -> list[str]:
    """Return the expressions of characters beyond 0xFFFF as surrogate pairs."""
    expressions = []
    low, high = low - 0x10000, high - 0x10000
    while low <= high:
        top = low >> 10
        if low & 0x3FF == 0 and high - low >= 0x3FF:
            last = (high + 1 >> 10) - 1  # all pairs of these first halves
            second = (0, 0x3FF)
        else:
            last = top
            second = (low & 0x3FF, min(high, top << 10 | 0x3FF) & 0x3FF)
        firsts = _hexadecimal(0xD800 + top, 0xD800 + last, 4, any_case)
        seconds = _hexadecimal(0xDC00 + second[0], 0xDC00 + second[1], 4, any_case)
        expressions.append(rf"\\u(?:{'|'.join(firsts)})\\u(?:{'|'.join(seconds)})")
        low = last + 1 << 10 if second[1] == 0x3FF else high + 1
    return expressions


def _hexadecimal(low: int, high: int, size: int, any_case: bool) -> list[str]:
    """Return expressions of the numbers from ``low`` to ``high`` in ``size`` hexadecimal digits."""
    if size == 1:
        return [_digits(low, high, any_case)]
    unit = 16 ** (size - 1)
    first, last = low // unit, high // unit
    if first == last:
        inner = _hexadecimal(low % unit, high % unit, size - 1, any_case)
        return [_digits(first, first, any_case) + tail for tail in inner]
    expressions = []
    if low % unit:
        inner = _hexadecimal(low % unit, unit - 1, size - 1, any_case)
        expressions += [_digits(first, first, any_case) + tail for tail in inner]
        first += 1
    tails = []
    if high % unit != unit - 1:
        inner = _hexadecimal(0, high % unit, size - 1, any_case)
        tails = [_digits(last, last, any_case) + tail for tail in inner]
        last -= 1
    if first <= last:
        free = _digits(0, 15, any_case)
        expressions.append(_digits(first, last, any_case) + f"{free}{{{size - 1}}}")
    return expressions + tails


def _digits(first: int, last: int, any_case: bool) -> str:
    digits = "".join(f"{digit:x}" for digit in range(first, last + 1))
    upper = "".join(d.upper() for d in digits if d.isalpha()) if any_case else ""
    return f"[{digits}{upper}]" if len(digits) + len(upper) > 1 else digits
