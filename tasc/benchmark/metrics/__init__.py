"""The quality metrics by name.

A metric is a function in one of these files and an entry of METRICS, from which help texts, checks,
reports and docs are generated.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from tasc.benchmark.metrics import bert, items, structured, texts
from tasc.benchmark.metrics.metric import Metric, f1, precision, recall, share
from tasc.errors import InputError

_ITEMS = "items separated by `--delimiter`"
_AVERAGES = {"f1": ("F1", f1), "precision": ("precision", precision), "recall": ("recall", recall)}

METRICS: dict[str, Metric] = {
    "exact_match": Metric(
        "Exact match",
        "Share of outputs equal to the reference; joint accuracy for intent and slots.",
        partial(texts.count_equal, str.strip),
        share,
        zero_one=True,
    ),
    "token_accuracy": Metric(
        "Token accuracy",
        "Share of the reference's words with the same word at that position of the output.",
        texts.count_words,
        share,
    ),
    **{
        f"micro_{name}": Metric(
            f"Micro {label}",
            f"{label[0].upper()}{label[1:]} over all items of all outputs, repeated ones included.",
            items.count,
            value,
            _ITEMS,
        )
        for name, (label, value) in _AVERAGES.items()
    },
    **{
        f"macro_{name}": Metric(
            f"Macro {label}",
            f"Mean over the references' labels of the {label} of each.",
            items.count_by_label,
            partial(items.mean, value),
            f"{_ITEMS}, each a label",
        )
        for name, (label, value) in _AVERAGES.items()
    },
    "intent_accuracy": Metric(
        "Intent accuracy",
        "Share of outputs with the reference's intent.",
        texts.count_intents,
        share,
        "`intent: NAME, …`",
        zero_one=True,
    ),
    "slot_f1": Metric(
        "Slot F1",
        "F1 over slots with the right name and value (seqeval's definition of an entity).",
        texts.count_slots,
        f1,
        "`{slot: value, …}`",
    ),
    "sql_exact_match": Metric(
        "SQL match",
        "Share of equal queries, ignoring spaces, case outside quotes, and a final semicolon.",
        partial(texts.count_equal, texts.normalised_sql),
        share,
        zero_one=True,
    ),
    "json_fields": Metric(
        "JSON fields",
        "Share of the reference's JSON fields with the same value in the output.",
        structured.count_fields,
        share,
        "JSON",
    ),
    "json_f1": Metric(
        "JSON F1",
        "F1 over all (path, value) pairs of all outputs; arrays are compared without their order.",
        structured.count_pairs,
        f1,
        "JSON",
    ),
    "rouge_l": Metric(
        "ROUGE-L",
        "Mean over outputs of the F-measure of the longest common subsequence of words.",
        texts.count_rouge_l,
        share,
        package="rouge-score",
    ),
}

JUDGE = "judge"
_JUDGE = Metric(
    JUDGE,
    "Mean score by the language model of `--judge-endpoint`: 1 to 4 points, scaled to 0 to 1.",
    lambda *_: np.empty((0, 2)),
    share,
    judged=True,
)


def find(text: str) -> Metric:
    """Return a metric by name, such as ``bert_score:model=DIR``. Raises InputError."""
    name, colon, options = text.partition(":")
    if text == JUDGE:
        return _JUDGE
    if name == "bert_score":
        return bert.from_options(options)
    if name == "valid":
        return structured.from_options(options)
    if name not in METRICS or colon:
        raise InputError(f"unknown metric {text!r}: choose from {described()}")
    return METRICS[name]


def described() -> str:
    """Return the names of all metrics, as a list in a sentence."""
    return ", ".join([*METRICS, structured.USAGE, bert.USAGE, JUDGE])


def check_metrics(names: Sequence[str]) -> None:
    """Raise InputError for an unknown metric, or one whose package or model is missing."""
    for name in names:
        find(name).check(name)


def score(
    names: Sequence[str], outputs: Sequence[str], references: Sequence[str], delimiter: str
) -> dict[str, float]:
    """Return each named metric of ``outputs`` against ``references``, between 0 and 1.

    The metric ``judge`` is left out: its scores come with the outputs.
    """
    metrics = {name: find(name) for name in names if name != JUDGE}
    return {name: metric.score(outputs, references, delimiter) for name, metric in metrics.items()}
