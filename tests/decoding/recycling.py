"""The slow twin of recycled logits: what was said after each context, by definition."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.decoding.scripted import ints

LONGEST = 3
KEPT = 8
Said = dict[int, float]


@dataclass
class Recycled:
    """Rows by context, in a dictionary without bounds; what is new weighs ``renewal``."""

    renewal: float = 0.5
    rows: dict[tuple[int, ...], Said] = field(default_factory=dict)

    def add(self, context: Sequence[int], said: Said) -> None:
        """Enter what was said after ``context``, for its last one, two and three tokens."""
        for n in range(1, min(LONGEST, len(context)) + 1):
            key = tuple(context[len(context) - n :])
            before = self.rows.get(key)
            mean = said
            if before is not None:
                mean = {t: (1 - self.renewal) * p for t, p in before.items()}
                for token, p in said.items():
                    mean[token] = mean.get(token, 0.0) + self.renewal * p
            ranked = sorted(mean.items(), key=lambda entry: -entry[1])  # stable: older ones first
            self.rows[key] = {t: p for t, p in ranked[:KEPT] if p > 0}

    def add_tree(self, context, tokens, parents, said: Sequence[Said]) -> None:
        """Enter what a forward over a tree said: first after ``context``, then after each node."""
        contexts = [list(context)]
        for token, parent in zip(tokens, parents, strict=True):
            contexts.append([*contexts[parent + 1], token])
        for each, row in zip(contexts, said, strict=True):
            self.add(each, row)

    def known(self, context: Sequence[int]) -> dict[int, Said]:
        """The rows of the last n tokens, by n, the longest first."""
        lengths = range(min(LONGEST, len(context)), 0, -1)
        found = {n: self.rows.get(tuple(context[len(context) - n :])) for n in lengths}
        return {n: row for n, row in found.items() if row is not None}


def falling(tokens: Sequence[int]) -> Said:
    """Probabilities 1/2, 1/4, …, which no two sums of a mean make alike too often."""
    return {t: float(np.float32(0.5 ** (i + 1))) for i, t in enumerate(tokens)}


def enter(logits, context, tokens, parents, said: Sequence[Said]) -> None:
    """Enter a step into the native table."""
    padded = [[*row, *[-1] * (KEPT - len(row))] for row in said]
    values = [[*row.values(), *[0.0] * (KEPT - len(row))] for row in said]
    logits.add_tree(
        ints(*context[-LONGEST:]),
        ints(*tokens),
        ints(*parents),
        np.array(padded, np.int32).ravel(),
        np.array(values, np.float32).ravel(),
    )
