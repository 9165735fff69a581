"""Outputs as the search reads them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc.backend.base import Int64, UInt8
from tasc.data.tokenizer import Encoded, LoadedTokenizer
from tasc.vocab.export import Export


@dataclass(frozen=True)
class Outputs:
    """Distinct outputs with their multiplicities, in tokens of the base tokenizer."""

    texts: list[str]
    weights: Int64  # (S,)
    encoded: Encoded
    starts: UInt8  # (T,) 1 where a pre-token starts
    restricted: bool  # whether new tokens keep to pre-tokens, as those of the pretoken export

    @classmethod
    def of(cls, texts: Sequence[str], base: LoadedTokenizer, kind: Export) -> "Outputs":
        """Count and encode the texts."""
        counts = Counter(texts)
        distinct = list(counts)
        weights = np.fromiter(counts.values(), np.int64, len(counts))
        encoded, starts = base.encode_with_boundaries(distinct)
        return cls(distinct, weights, encoded, starts, kind == "pretoken")

    @property
    def boundaries(self) -> UInt8 | None:
        """``starts`` where the search has to keep to them."""
        return self.starts if self.restricted else None

    def fit(self, budget: int) -> bool:
        """Whether ``budget`` tokens are about as many as there are outputs that need one."""
        return int((np.diff(self.encoded.offsets) > 1).sum()) <= 2 * budget + 16

    @property
    def count(self) -> int:
        """Outputs, repeated ones included."""
        return int(self.weights.sum())

    def total(self, per_text: Int64) -> int:
        """The weighted sum of a number for each distinct text."""
        return int(self.weights @ per_text)
