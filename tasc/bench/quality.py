"""Task quality: exact match, token accuracy, and micro-F1 over delimiter-separated items."""

from collections import Counter
from collections.abc import Callable, Sequence

from tasc.errors import InputError


def exact_match(predictions: Sequence[str], references: Sequence[str], delimiter: str) -> float:
    """Share of outputs equal to the reference (joint accuracy for intent and slots)."""
    del delimiter
    pairs = zip(predictions, references, strict=True)
    return sum(p.strip() == r.strip() for p, r in pairs) / len(references)


def token_accuracy(predictions: Sequence[str], references: Sequence[str], delimiter: str) -> float:
    """Share of reference words that stand at the same place in the prediction."""
    del delimiter
    right = total = 0
    for prediction, reference in zip(predictions, references, strict=True):
        words = reference.split()
        total += len(words)
        right += sum(a == b for a, b in zip(prediction.split(), words, strict=False))
    return right / max(total, 1)


def micro_f1(predictions: Sequence[str], references: Sequence[str], delimiter: str) -> float:
    """F1 over all items of all outputs; an item counts as often as it stands there."""
    shared = predicted = expected = 0
    for prediction, reference in zip(predictions, references, strict=True):
        a, b = (_items(text, delimiter) for text in (prediction, reference))
        shared += (a & b).total()
        predicted += a.total()
        expected += b.total()
    return 2 * shared / max(predicted + expected, 1)


def _items(text: str, delimiter: str) -> Counter[str]:
    return Counter(item.strip() for item in text.split(delimiter) if item.strip())


Metric = Callable[[Sequence[str], Sequence[str], str], float]

METRICS: dict[str, Metric] = {
    "exact_match": exact_match,
    "token_accuracy": token_accuracy,
    "micro_f1": micro_f1,
}


def check_metrics(names: Sequence[str]) -> None:
    """Refuse a name that is not in METRICS."""
    for name in names:
        if name not in METRICS:
            raise InputError(f"unknown metric {name!r}: choose from {', '.join(METRICS)}")


def score(
    names: Sequence[str], predictions: Sequence[str], references: Sequence[str], delimiter: str
) -> dict[str, float]:
    """Return each named metric of ``predictions`` against ``references``, between 0 and 1."""
    return {name: METRICS[name](predictions, references, delimiter) for name in names}
