"""The n-grams that shorten a task's outputs most, with examples of where they stand."""

from dataclasses import dataclass

from tasc.analysis.outputs import Distinct
from tasc.backend import MergeResult

SHOWN = 25
_AROUND = 30  # characters on each side of an example


@dataclass(frozen=True)
class TopMerge:
    """One n-gram that the merge search chose."""

    text: str  # what it spells; bytes that are no UTF-8 of their own are shown as replacements
    frequency: int  # occurrences when it was chosen, repetitions of an output included
    saved: int  # tokens that it saves, frequency · (n - 1)
    # Text before it, itself, and text after it in one output; empty where none holds it as text
    example: tuple[str, str, str]


def top_merges(result: MergeResult, outputs: Distinct, most: int = SHOWN) -> tuple[TopMerge, ...]:
    """Return the first merges: the search takes the most rewarding n-gram each time."""
    return tuple(
        TopMerge(text, merge.frequency, merge.reward, _example(text, outputs))
        for merge in result.merges[:most]
        for text in [merge.string.decode(errors="replace")]
    )


def _example(text: str, outputs: Distinct) -> tuple[str, str, str]:
    """The n-gram in the first output that has something before it as well as after it."""
    found = ("", "", "")
    for output in outputs.texts:
        at = output.find(text)
        if at < 0:
            continue
        end = at + len(text)
        here = (output[max(0, at - _AROUND) : at], text, output[end : end + _AROUND])
        if here[0] and here[2]:
            return here
        found = found if found[1] else here
    return found
