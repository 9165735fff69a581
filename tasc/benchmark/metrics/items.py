"""Items of outputs and references: labels in any order, with repetitions.

Micro averages weight items equally, macro averages labels. Only the references define labels, as in
scikit-learn's binarisation: an item that no reference contains lowers only the micro-precision.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tasc.benchmark.metrics.metric import Counts, Value


def count(outputs: Sequence[str], references: Sequence[str], delimiter: str) -> np.ndarray:
    """Count the items (N, 3) in both, in the output, and in the reference."""
    return shared(_split(outputs, delimiter), _split(references, delimiter))


def shared(items: Sequence[Counter[str]], expected: Sequence[Counter[str]]) -> np.ndarray:
    """Count the items (N, 3) in both, in ``items``, and in ``expected``."""
    pairs = zip(items, expected, strict=True)
    return np.array([[(a & b).total(), a.total(), b.total()] for a, b in pairs], float)


def count_by_label(outputs: Sequence[str], references: Sequence[str], delimiter: str) -> Counts:
    """Count like ``count`` for each of the references' L sorted labels: (N, 3 L), sparse."""
    from scipy.sparse import csr_array

    said, expected = _split(outputs, delimiter), _split(references, delimiter)
    labels = {name: i for i, name in enumerate(sorted(set().union(*expected)))}
    cells = [
        (times, sample, 3 * labels[name] + kind)
        for sample, (a, b) in enumerate(zip(said, expected, strict=True))
        for kind, items in enumerate((a & b, a, b))
        for name, times in items.items()
        if name in labels
    ]
    counts, samples, columns = np.array(cells, np.int64).reshape(-1, 3).T
    shape = len(outputs), 3 * len(labels)
    return csr_array((counts.astype(float), (samples, columns)), shape=shape)


def _split(texts: Sequence[str], delimiter: str) -> list[Counter[str]]:
    return [
        Counter(item.strip() for item in text.split(delimiter) if item.strip()) for text in texts
    ]


def mean(value: Value, sums: np.ndarray) -> np.ndarray:
    """Return the mean ``value`` of (..., 3 L) sums over the labels in their references."""
    by_label = sums.reshape(*sums.shape[:-1], -1, 3)
    present = by_label[..., 2] > 0
    means: np.ndarray = (value(by_label) * present).sum(-1) / np.maximum(present.sum(-1), 1)
    return means
