"""The quality metrics by name: what heads a column, how samples are counted, what they need.

A metric is a function in a file here and one line of METRICS. Help, checks, reports and docs are
read from it.
"""

from collections.abc import Sequence
from functools import cache, partial

import numpy as np

from tasc.benchmark.metrics import bert, items, slots, sql, texts
from tasc.benchmark.metrics.metric import Metric, f1, precision, recall, share
from tasc.errors import InputError

_ITEMS = "items separated by `--delimiter`"
_LABELS = f"{_ITEMS}, each a label"
_INTENT = "`intent: NAME, …`"
_SLOTS = "`{slot: value, …}`"

METRICS: dict[str, Metric] = {
    "exact_match": Metric(
        "Exact match",
        "Share of outputs equal to the reference; joint accuracy for intent and slots.",
        texts.count_equal,
        share,
        zero_one=True,
    ),
    "token_accuracy": Metric(
        "Token accuracy",
        "Share of reference words that stand at the same position in the output.",
        texts.count_words,
        share,
    ),
    "micro_f1": Metric(
        "Micro F1",
        "F1 over all items of all outputs, each as often as it occurs.",
        items.count,
        f1,
        _ITEMS,
    ),
    "micro_precision": Metric(
        "Micro precision",
        "Share of the items of outputs that the reference has.",
        items.count,
        precision,
        _ITEMS,
    ),
    "micro_recall": Metric(
        "Micro recall",
        "Share of the items of references that the output has.",
        items.count,
        recall,
        _ITEMS,
    ),
    "macro_f1": Metric(
        "Macro F1",
        "F1 of each label of the references, then the mean over labels.",
        items.count_by_label,
        partial(items.mean, f1),
        _LABELS,
    ),
    "macro_precision": Metric(
        "Macro precision",
        "Precision of each label of the references, then the mean over labels.",
        items.count_by_label,
        partial(items.mean, precision),
        _LABELS,
    ),
    "macro_recall": Metric(
        "Macro recall",
        "Recall of each label of the references, then the mean over labels.",
        items.count_by_label,
        partial(items.mean, recall),
        _LABELS,
    ),
    "intent_accuracy": Metric(
        "Intent accuracy",
        "Share of outputs that name the intent of the reference.",
        slots.count_intents,
        share,
        _INTENT,
        zero_one=True,
    ),
    "slot_f1": Metric(
        "Slot F1",
        "F1 over slots, right where name and value are (seqeval's definition of an entity).",
        slots.count_slots,
        f1,
        _SLOTS,
    ),
    "sql_exact_match": Metric(
        "SQL match",
        "Share of queries equal but for white space, case outside of quotes, and a last semicolon.",
        sql.count,
        share,
        zero_one=True,
    ),
    "rouge_l": Metric(
        "ROUGE-L",
        "F-measure of the longest common subsequence of words, the mean over outputs.",
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
    """Return the metric of a name, or of ``bert_score:model=DIR``. Raises InputError."""
    name, given, options = text.partition(":")
    if text == JUDGE:
        return _JUDGE
    if name == "bert_score":
        return _bert_score(options)
    if name not in METRICS or given:
        raise InputError(f"unknown metric {text!r}: choose from {described()}")
    return METRICS[name]


@cache  # with the model that was loaded for it
def _bert_score(options: str) -> Metric:
    made = bert.BertScore.parse(options)
    return Metric(
        bert.LABEL, bert.SUMMARY, made.count, share, package="bert-score", ready=made.check
    )


def described() -> str:
    """Return what ``find`` takes."""
    return ", ".join([*METRICS, bert.USAGE, JUDGE])


def check_metrics(names: Sequence[str]) -> None:
    """Refuse a name that ``find`` does not know, and one whose package or model is not there."""
    for name in names:
        find(name).check(name)


def score(
    names: Sequence[str], outputs: Sequence[str], references: Sequence[str], delimiter: str
) -> dict[str, float]:
    """Return each named metric of ``outputs`` against ``references``, between 0 and 1.

    A metric that is judged is left out: its scores come with the outputs.
    """
    metrics = {name: find(name) for name in names}
    return {
        name: metric.score(outputs, references, delimiter)
        for name, metric in metrics.items()
        if not metric.judged
    }
