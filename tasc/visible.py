"""Text of others, made fit to be shown: what would steer a terminal or a page is spelled out."""

import re

# Control characters but newline and tab, other line ends, bidirectional overrides and isolates,
# and halves of surrogate pairs, as which the system hands on bytes that are no text.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Return ``text`` with such characters as Python writes them: ``\\x1b``; all else stays."""
    return STEERING.sub(lambda found: _spelled(found[0]), text)


def visible_line(text: str) -> str:
    """Return ``text`` as one line: newlines and tabs are spelled out, too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()
