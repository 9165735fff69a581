"""Outputs as the merge search reads them: each distinct one once, in tokens."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc.backend.base import Int64, UInt8
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer


@dataclass(frozen=True)
class Distinct:
    """Texts without repetition, and how often each occurs."""

    texts: list[str]
    weights: Int64  # (S,)

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Distinct":
        """Count the texts."""
        counts = Counter(texts)
        return cls(list(counts), np.fromiter(counts.values(), np.int64, len(counts)))

    @property
    def count(self) -> int:
        """Texts, repeated ones included."""
        return int(self.weights.sum())

    def total(self, per_text: Int64) -> int:
        """The weighted sum of a number for each distinct text."""
        return int(self.weights @ per_text)


@dataclass(frozen=True)
class Outputs(Distinct):
    """Distinct outputs with their multiplicities, in tokens of the base tokenizer."""

    encoded: Encoded
    starts: UInt8  # (T,) 1 where a pre-token starts; empty if nobody asked
    restricted: bool  # whether new tokens keep to pre-tokens, as those of the pretoken export

    @classmethod
    def encode(
        cls, found: Distinct, base: LoadedTokenizer, export: str, *, starts: bool = True
    ) -> "Outputs":
        """Encode distinct outputs; ``starts`` of pre-tokens are known to "pretoken" anyway."""
        restricted = export == "pretoken"
        if starts or restricted:
            encoded, begin = base.encode_with_boundaries(found.texts)
        else:
            encoded, begin = base.encode(found.texts), np.empty(0, np.uint8)
        return cls(found.texts, found.weights, encoded, begin, restricted)

    @property
    def boundaries(self) -> UInt8 | None:
        """``starts`` where the search has to keep to them."""
        return self.starts if self.restricted else None

    def fit(self, budget: int) -> bool:
        """Whether ``budget`` tokens are about as many as there are outputs that need one."""
        return int((np.diff(self.encoded.offsets) > 1).sum()) <= 2 * budget + 16


def encode_outputs(texts: Sequence[str], base: LoadedTokenizer, export: str) -> Outputs:
    """Count and encode outputs."""
    return Outputs.encode(Distinct.of(texts), base, export)
