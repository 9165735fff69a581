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
    starts: UInt8  # (T,) 1 where a pre-token starts; empty if not requested
    restricted: bool  # whether new tokens respect pre-token boundaries (the pretoken export)

    @classmethod
    def encode(
        cls, found: Distinct, base: LoadedTokenizer, export: str, *, starts: bool = True
    ) -> "Outputs":
        """Encode distinct outputs; the pretoken export always computes ``starts``."""
        restricted = export == "pretoken"
        if starts or restricted:
            encoded, begin = base.encode_with_boundaries(found.texts)
        else:
            encoded, begin = base.encode(found.texts), np.empty(0, np.uint8)
        return cls(found.texts, found.weights, encoded, begin, restricted)

    @property
    def boundaries(self) -> UInt8 | None:
        """``starts`` if the search is restricted to them."""
        return self.starts if self.restricted else None

    def fit(self, budget: int) -> bool:
        """Return whether ``budget`` tokens can cover about all outputs of several tokens."""
        return int((np.diff(self.encoded.offsets) > 1).sum()) <= 2 * budget + 16


def encode_outputs(texts: Sequence[str], base: LoadedTokenizer, export: str) -> Outputs:
    """Count and encode outputs."""
    counts = Counter(texts)
    weights = np.fromiter(counts.values(), np.int64, len(counts))
    return Outputs.encode(Distinct(list(counts), weights), base, export)
