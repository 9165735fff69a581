"""Recognise outputs that are lists of labels of a closed set, such as ``sports; politics``."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

DELIMITERS = ("; ", ";", ", ", ",", " | ", "|")
WORD_DELIMITERS = (" ",)  # of columns that hold lists, which are joined by it
_MOST_LABELS = 100
_REPEATS = 5  # mean number of outputs with a label
_LONGEST = 64  # characters of a label
_SEVERAL = 0.05  # smallest share of outputs with two labels or more


@dataclass(frozen=True)
class LabelLists:
    """Outputs of different labels, with ``delimiter`` between them and its spaces."""

    labels: tuple[str, ...]
    delimiter: str

    def fits(self, output: str) -> bool:
        """Return whether an output is a list of these labels, each once."""
        items = output.split(self.delimiter)
        return len(set(items)) == len(items) and set(items) <= set(self.labels)

    @property
    def grammar(self) -> str:
        """The outputs as a Lark grammar."""
        names = "\n  | ".join(json.dumps(label, ensure_ascii=False) for label in self.labels)
        delimiter = json.dumps(self.delimiter)
        return f"start: LABEL ({delimiter} LABEL)*\nLABEL: {names}\n"


def label_lists(outputs: Sequence[str], delimiters: Sequence[str]) -> LabelLists | None:
    """Return the labels of ``outputs``, if they are lists with one of ``delimiters``.

    The labels are few and short, each is in several outputs on average, none is twice in one
    output, and some outputs have two or more. Outputs that do not fit are for the caller to count.
    """
    for delimiter in delimiters:
        lists = [output.split(delimiter) for output in outputs]
        sets = [items for items in lists if len(set(items)) == len(items)]
        if sum(len(items) > 1 for items in sets) < _SEVERAL * len(outputs):
            continue
        counts = Counter(item for items in sets for item in items)
        few = len(counts) <= _MOST_LABELS and counts.total() >= _REPEATS * len(counts)
        if few and len(sets) >= 0.99 * len(lists) and all(map(_is_label, counts)):
            return LabelLists(tuple(sorted(counts)), delimiter)
    return None


def _is_label(text: str) -> bool:
    return text == text.strip() != "" and len(text) <= _LONGEST and text.isprintable()
