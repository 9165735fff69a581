"""ROUGE-L of Lin (2004), as the package rouge-score computes it, without stemming."""

from collections.abc import Sequence

import numpy as np


def count(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Return (N, 2): the F-measure of each output, and 1."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"])
    pairs = zip(references, outputs, strict=True)
    return np.array([[scorer.score(b, a)["rougeL"].fmeasure, 1.0] for b, a in pairs])
