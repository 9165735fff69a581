"""Making text of unknown origin safe to print on a terminal or page."""

import re

# Control characters except newline and tab, other line ends, bidirectional overrides and isolates,
# and surrogates, which represent undecodable bytes of paths.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def is_unicode(text: str) -> bool:
    """Return whether ``text`` has no half of a surrogate pair, which UTF-8 cannot encode."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def visible(text: str) -> str:
    """Return ``text`` with control characters escaped, as in ``\\x1b``."""
    return STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def visible_line(text: str) -> str:
    """Return ``text`` as one line, with newlines and tabs escaped, too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")
