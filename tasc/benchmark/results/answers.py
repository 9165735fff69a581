"""The most frequent answer of a classification task, and wrong outputs beside their references."""

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
from pydantic import NonNegativeInt

from tasc.benchmark.metrics import METRICS, find, score
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.conditions import Settings
from tasc.report.record import Record

# Without --choices, outputs are labels if they are few, short and repeated.
_MOST_LABELS, _REPEATS, _LONGEST_LABEL = 100, 5, 64  # labels, outputs per label, characters
WRONG = 3  # wrong outputs per model
_SHOWN = 200  # characters of a text
_RIGHT = 1 - 1e-9  # smallest value of a right sample


class Majority(Record):
    """The quality of always answering the most frequent label."""

    answer: str
    split: str
    """Split in which it is the most frequent one: the corpus split, or without one the samples'."""
    quality: dict[str, float]
    """By metric, for the metrics that only compare texts."""

    @property
    def shown(self) -> str:
        """The answer in quotes, shortened."""
        return f"“{_shortened(self.answer, _LONGEST_LABEL)}”"


class WrongOutput(Record):
    """An output that is wrong by the first metric, by the first method of its model."""

    model: str
    sample: NonNegativeInt
    """Its index in ``samples``."""
    reference: str
    """Its first 200 characters."""
    output: str
    """Its first 200 characters."""


def majority(
    splits: dict[str, Sequence[str]],
    references: Sequence[str],
    settings: Settings,
    *,
    labels: bool = False,
) -> Majority | None:
    """Return the quality of the most frequent output of the first split with outputs.

    None if the task is no classification: if the outputs are not known to be ``labels`` and neither
    they nor their items, if they are lists, seem to be.
    """
    split, outputs = next(((k, v) for k, v in splits.items() if v), ("", ()))
    are_labels = labels or _are_labels(outputs) or _are_labels(_items(outputs, settings.delimiter))
    if not outputs or not are_labels:
        return None
    ((answer, _),) = Counter(text.strip() for text in outputs).most_common(1)
    metrics = [n for n in settings.metrics if n in METRICS and not METRICS[n].package]
    answers = [answer] * len(references)
    quality = score(metrics, answers, references, settings.delimiter)
    return Majority(answer=answer, split=split, quality=quality)


def _items(outputs: Sequence[str], delimiter: str) -> list[str]:
    """Return the items of outputs that are lists, as JSON or with a delimiter; none of others."""
    items = list[str]()
    for output in outputs:
        try:
            value = json.loads(output)
        except (ValueError, RecursionError):
            value = output.split(delimiter)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            return []
        items += value
    return items


def _are_labels(outputs: Sequence[str]) -> bool:
    different = {text.strip() for text in outputs}
    few = 1 < len(different) <= min(_MOST_LABELS, len(outputs) // _REPEATS)
    return few and all(len(text) <= _LONGEST_LABEL and "\n" not in text for text in different)


def wrong_outputs(
    cells: Sequence[Cell], references: Sequence[str], settings: Settings
) -> tuple[WrongOutput, ...]:
    """Return the first wrong outputs of each model's first method, in the order of the samples."""
    firsts = dict[str, Cell]()
    for cell in cells:
        firsts.setdefault(cell.model, cell)
    return tuple(
        WrongOutput(
            model=model,
            sample=i,
            reference=_shortened(references[i]),
            output=_shortened(cell.outputs[i].text),
        )
        for model, cell in firsts.items()
        for i in _wrong(cell, references, settings)[:WRONG].tolist()
    )


def _wrong(cell: Cell, references: Sequence[str], settings: Settings) -> np.ndarray:
    """Return the samples that are wrong by the first metric.

    By metrics without a value per sample, or that need a package or a model, every output that
    differs from its reference is wrong.
    """
    differs = np.array(
        [a.strip() != b.strip() for a, b in zip(cell.texts, references, strict=True)]
    )
    name = next(iter(settings.metrics), "")
    if name and (metric := find(name)).judged:
        return np.flatnonzero([s is not None and s < _RIGHT for s in cell.scores])
    if name in METRICS and not metric.package:
        counts = metric.count(cell.texts, references, settings.delimiter)
        if isinstance(counts, np.ndarray):
            differs &= metric.value(counts) < _RIGHT
    return np.flatnonzero(differs)


def _shortened(text: str, longest: int = _SHOWN) -> str:
    return text if len(text) <= longest else text[:longest] + "…"
