"""Tokens of a text on the terminal: in two shades by turns, or with a separator where no colour."""

from collections.abc import Sequence

from rich.text import Text

from tasc.visible import visible_line

from ._console import out, say

SEPARATOR = "│"
# Letters and background both, so that they are read on a light terminal and on a dark one.
_SHADES = {
    "cut": ("#5a5a5a on #e3e3e3", "#5a5a5a on #cfcfcf"),
    "read": ("#1d2733 on #dbe4ee", "#1d2733 on #b9cbdd"),
    "learnt": ("#12331d on #c9ecd4", "#12331d on #97d3ab"),
}


def say_tokens(tokens: Sequence[tuple[str, int]], state: str) -> None:
    """Print tokens, (text, shade) each; a line ends where the text has one.

    ``state`` is ``cut``, ``read`` or ``learnt``; who sees no colours has to be told it beside.
    """
    lines: list[list[tuple[str, int]]] = [[]]
    for text, shade in tokens:
        lines[-1].append((visible_line(text), shade))
        if text.endswith("\n"):
            lines.append([])
    for line in filter(None, lines):
        if not out.is_terminal or out.no_color:
            say("    " + SEPARATOR.join(text for text, _ in line))
            continue
        shades = _SHADES[state]
        pieces = [(text, shades[shade % 2]) for text, shade in line]
        out.print(Text.assemble("    ", *pieces), soft_wrap=True)
