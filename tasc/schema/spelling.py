"""Regular expressions of the spellings of JSON strings and numbers, in the syntax of Rust.

They stand in a grammar between slashes, so a slash is escaped.
"""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_SHORT = {'"': '"', "\\": "\\\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_ESCAPE = r"\\u"
_PAIR = rf"{_ESCAPE}[dD][89aAbB][0-9a-fA-F]{{2}}{_ESCAPE}[dD][c-fC-F][0-9a-fA-F]{{2}}"
# A character of a string in any spelling that JSON allows; half of a surrogate pair is none.
CHARACTER = (
    r"(?:[^\"\\\x00-\x1F]"
    r"|\\[\"\\\/bfnrt]"
    rf"|{_ESCAPE}(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{{3}}|[dD][0-7][0-9a-fA-F]{{2}})"
    rf"|{_PAIR})"
).replace('\\"', '"')
STRING = f'"{CHARACTER}*"'
NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
# Printable ASCII that Go, Gson and .NET escape by default, for text inside of HTML.
_OF_HTML = frozenset("<>&='+`")
_META = frozenset("\\.+*?()|[]{}^$#&-~/")


def literal(text: str) -> str:
    """Return the expression of a text itself."""
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character in _META:
        return "\\" + character
    return character if character.isprintable() else f"\\x{{{ord(character):x}}}"


def hexadecimal(character: str) -> str:
    r"""Return the expression of a character as ``\uXXXX`` or a pair of them, in either case."""
    digits = character.encode("utf-16-be").hex()
    return "".join(_ESCAPE + _digits(digits[i : i + 4]) for i in range(0, len(digits), 4))


def _digits(unit: str) -> str:
    return "".join(f"[{d}{d.upper()}]" if d.isalpha() else d for d in unit)


def character(one: str, ensure_ascii: bool | None) -> str:
    """Return the expression of a character of a string whose value is known.

    With True or False, it has the spelling of json.dumps; with None, it has each that JSON allows,
    but printable ASCII other than "/" and ``_OF_HTML`` is written as it is.
    """
    if ensure_ascii is not None:
        return literal(json.dumps(one, ensure_ascii=ensure_ascii)[1:-1])
    if one == "/":
        return r"\\?\/"
    if " " <= one <= "~" and one not in _SHORT and one not in _OF_HTML:
        return literal(one)
    ways = [hexadecimal(one)]
    if one in _SHORT:
        ways.append("\\\\" + (_SHORT[one] if one != "\\" else "\\\\"))
    elif one >= " ":
        ways.append(literal(one))
    return f"(?:{'|'.join(ways)})"


def string(value: str, ensure_ascii: bool | None) -> str:
    """Return the expression of a string whose value is known, with its quotes."""
    return '"' + "".join(character(one, ensure_ascii) for one in value) + '"'


def any_spelling(value: str) -> str:
    """Return the expression of a string in every spelling that JSON allows, with its quotes."""
    return '"' + "".join(_each(one) for one in value) + '"'


def _each(one: str) -> str:
    spelling = character(one, None)
    if " " <= one <= "~" and one not in _SHORT and one not in _OF_HTML:
        return f"(?:{spelling}|{hexadecimal(one)})"
    return spelling


def number(value: float) -> str:
    """Return the expression of the spellings of a number: 1 is also 1.0 and 1e0."""
    ways = set[str]()
    if isinstance(value, float) and not value.is_integer():
        ways.add(_decimal(repr(value)))
    else:
        whole = int(value)
        ways.add(("-?" if not whole else "") + _decimal(str(whole)))
        with suppress(OverflowError):  # no float is as large
            if float(whole) == whole:
                ways.add(_decimal(repr(float(whole))))
    return f"(?:{'|'.join(sorted(ways))})"


def _decimal(text: str) -> str:
    """Return the expression of a number in Python's spelling, with zeros that add nothing."""
    digits, _, exponent = text.partition("e")
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    tail = rf"\.{fraction}0*" if fraction else r"(?:\.0+)?"
    power = rf"[eE]{_power(exponent)}" if exponent else r"(?:[eE][+-]?0+)?"
    return literal(whole) + tail + power


def _power(exponent: str) -> str:
    sign = {"-": "-", "+": r"\+?"}.get(exponent[0], r"\+?")
    return sign + "0*" + exponent.lstrip("+-0")


def _at_most(digits: str) -> str:
    """Return the expression of fractions of up to ``len(digits)`` digits, none above ``digits``."""
    ways = [digits]
    for i, digit in enumerate(digits):
        if digit != "0":
            rest = len(digits) - i - 1
            ways.append(f"{digits[:i]}[0-{int(digit) - 1}][0-9]{{0,{rest}}}")
        if i:
            ways.append(digits[:i])
    return f"(?:{'|'.join(ways)})"


def _largest() -> str:
    """Return the expression of whole numbers that Python writes with an exponent."""
    digits, _, top = repr(math.nextafter(math.inf, 0)).partition("e+")
    first, _, fraction = digits.partition(".")
    power = int(top)  # 308
    below = rf"1[6-9]|[2-9][0-9]|[12][0-9]{{2}}|30[0-{power % 10 - 1}]"
    return (
        rf"[1-9](?:\.[0-9]{{1,16}})?e\+(?:{below})"
        rf"|{first}(?:\.{_at_most(fraction)})?e\+{power}"
    )


# A whole number as json.dumps writes it: 1, 1.0 and 1e+16.
INTEGER = rf"-?(?:(?:0|[1-9][0-9]*)(?:\.0+)?|{_largest()})"
# Numbers that json.dumps writes with an exponent: below 1e-4, and from 1e16.
TINY = r"[1-9](?:\.[0-9]+)?e-(?:0[5-9]|[1-9][0-9]|[12][0-9]{2}|3[0-2][0-9])"
HUGE = rf"(?:{_largest()})"


def exponents(bounds: Mapping[str, Any]) -> list[str]:
    """Return the spellings with an exponent of numbers, where the bounds let all of them through.

    llguidance gives numbers with bounds no exponent, but json.dumps writes 5e-05 and 1e+16.
    """
    if "multipleOf" in bounds or any(isinstance(bound, bool) for bound in bounds.values()):
        return []
    low = max(bounds.get("minimum", -float("inf")), bounds.get("exclusiveMinimum", -float("inf")))
    high = min(bounds.get("maximum", float("inf")), bounds.get("exclusiveMaximum", float("inf")))
    spellings = []
    if low <= 0 and high >= 1e-4:
        spellings.append(TINY)
    if low <= -1e-4 and high >= 0:
        spellings.append("-" + TINY)
    if low < 1e16 and high == float("inf"):
        spellings.append(HUGE)
    if low == -float("inf") and high > -1e16:
        spellings.append("-" + HUGE)
    return spellings
