"""Metrics of whole texts and of words."""

from collections.abc import Sequence

import numpy as np

from tasc.benchmark.metrics.metric import right


def count_equal(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Compare texts without surrounding white space."""
    return right([a.strip() == b.strip() for a, b in zip(outputs, references, strict=True)])


def count_words(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Count (N, 2): words equal to the reference at their position, and its words."""
    return np.array([_words(*pair) for pair in zip(outputs, references, strict=True)], float)


def _words(output: str, reference: str) -> tuple[int, int]:
    words = reference.split()
    return sum(a == b for a, b in zip(output.split(), words, strict=False)), len(words)


def count_rouge_l(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Return the F-measure of each output, and 1: (N, 2).

    ROUGE-L of Lin (2004), as computed by the package rouge-score, without stemming.
    """
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"])
    pairs = zip(references, outputs, strict=True)
    return np.array([[scorer.score(b, a)["rougeL"].fmeasure, 1.0] for b, a in pairs])
