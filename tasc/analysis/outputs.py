"""Distinct outputs in tokens, the input of the merge search."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc.backend.base import Int64, UInt8
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer


@dataclass(frozen=True)
class Distinct:
    """Distinct texts and their counts."""

    texts: list[str]
    weights: Int64  # (S,)

    @property
    def count(self) -> int:
        """Number of texts, including repeated ones."""
        return int(self.weights.sum())

    def total(self, per_text: Int64) -> int:
        """Return the weighted sum of a number for each distinct text, (S,)."""
        return int(self.weights @ per_text)


@dataclass(frozen=True)
class Outputs(Distinct):
    """Distinct outputs and their counts, in tokens of the base tokenizer."""

    encoded: Encoded
    boundaries: UInt8 | None  # (T,) 1 where a pre-token starts, if new tokens respect pre-tokens

    @classmethod
    def encode(cls, distinct: Distinct, base: LoadedTokenizer, export: str) -> "Outputs":
        """Encode distinct outputs; new tokens of the pretoken export respect pre-tokens."""
        encoded = None
        boundaries = None
        if export == "pretoken":
            encoded, boundaries = base.encode_with_boundaries(distinct.texts)
        return cls(
            distinct.texts, distinct.weights, encoded or base.encode(distinct.texts), boundaries
        )

    def fit(self, budget: int) -> bool:
        """Return whether ``budget`` tokens can cover about all outputs of several tokens."""
        return int((np.diff(self.encoded.offsets) > 1).sum()) <= 2 * budget + 16


def encode_outputs(texts: Sequence[str], base: LoadedTokenizer, export: str) -> Outputs:
    """Count and encode outputs."""
    counts = Counter(texts)
    weights = np.fromiter(counts.values(), np.int64, len(counts))
    return Outputs.encode(Distinct(list(counts), weights), base, export)
