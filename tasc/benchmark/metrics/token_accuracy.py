"""Words at the position where the reference has them: the accuracy of tags."""

from collections.abc import Sequence

import numpy as np


def count(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Count (N, 2) words of references that are right, and all of them."""
    return np.array([_count(*pair) for pair in zip(outputs, references, strict=True)], float)


def _count(output: str, reference: str) -> tuple[int, int]:
    words = reference.split()
    return sum(a == b for a, b in zip(output.split(), words, strict=False)), len(words)
