"""The n-grams that shorten a task's outputs most, with examples."""

from dataclasses import dataclass

from tasc.analysis.outputs import Distinct
from tasc.backend import MergeResult

SHOWN = 25
_AROUND = 30  # characters on each side of an example


@dataclass(frozen=True)
class TopMerge:
    """One n-gram of the merge search."""

    text: str  # invalid UTF-8 is replaced
    frequency: int  # occurrences when it was chosen, including repeated outputs
    saved: int  # tokens, frequency · (n - 1)
    # Text before it, itself, and text after it in one output; empty if no output contains the text
    example: tuple[str, str, str]


def top_merges(result: MergeResult, outputs: Distinct, most: int = SHOWN) -> tuple[TopMerge, ...]:
    """Return the first merges, which have the largest rewards."""
    return tuple(
        TopMerge(text, merge.frequency, merge.reward, _example(text, outputs))
        for merge in result.merges[:most]
        for text in [merge.string.decode(errors="replace")]
    )


def _example(text: str, outputs: Distinct) -> tuple[str, str, str]:
    """Return the n-gram in the first output with text before and after it, else in any output."""
    first = ("", "", "")
    for output in outputs.texts:
        at = output.find(text)
        if at < 0:
            continue
        end = at + len(text)
        example = (output[max(0, at - _AROUND) : at], text, output[end : end + _AROUND])
        if example[0] and example[2]:
            return example
        first = first if first[1] else example
    return first
