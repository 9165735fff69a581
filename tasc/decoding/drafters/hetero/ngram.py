"""An n-gram table as draft model, over bytes or over the tokens of any tokenizer.

Orders are interpolated by absolute discounting down to the uniform distribution:
p(t | c) = max(n(c, t) - discount, 0) / n(c) + discount · kinds(c) / n(c) · p(t | c without its
first token). Texts with the same last n - 1 tokens share a node, so that the sum over segmentations
is a dynamic program over positions and nodes.
"""

from collections.abc import Sequence

import numpy as np
import torch

from tasc.vocab.strings import KEPT

_DISCOUNT = 0.75  # subtracted from every count


class NgramModel:
    """Counts of n-grams, shared by sequences."""

    def __init__(self, texts: Sequence[np.ndarray], size: int, n: int, end: int) -> None:
        """Count n-grams up to ``n`` over ``size`` tokens in texts (T_i,), each ended by ``end``."""
        self.size, self.n = size, n
        ended = [np.append(t, end) for t in texts] or [np.array([end])]
        flat = np.concatenate(ended, dtype=np.int64)
        start = np.cumsum([0, *(len(t) + 1 for t in texts)])[:-1]
        # levels[k]: sorted keys (number of the first k tokens) · size + (next token), and counts.
        self.levels: list[tuple[np.ndarray, np.ndarray]] = []
        number = np.zeros(len(flat), np.int64)  # of the k tokens before each position
        inside = np.ones(len(flat), bool)  # whether those tokens belong to the same text
        for _ in range(n):
            keys = (number * size + flat)[inside]
            level_keys, number[inside], counts = np.unique(
                keys, return_inverse=True, return_counts=True
            )
            self.levels.append((level_keys, counts))
            number = np.append(0, number[:-1])  # read only inside, where it was set
            inside = np.append(False, inside[:-1])
            inside[start] = False
        self.rows: dict[tuple[int, ...], torch.Tensor] = {}

    def row(self, context: tuple[int, ...]) -> torch.Tensor:
        """Return log p (V_D,) after ``context``, the last n - 1 tokens."""
        row = self.rows.get(context)
        if row is None:
            if (len(self.rows) + 1) * self.size > KEPT:
                self.rows.clear()
            row = torch.from_numpy(np.log(self._distribution(context)).astype(np.float32))
            self.rows[context] = row
        return row

    def _distribution(self, context: tuple[int, ...]) -> np.ndarray:
        distribution = np.full(self.size, 1 / self.size)
        for length in range(len(context) + 1):
            number = self._number(context[len(context) - length :])
            if number is None:
                return distribution
            keys, counts = self.levels[length]
            low, high = np.searchsorted(keys, [number * self.size, (number + 1) * self.size])
            if low == high:
                return distribution
            seen = counts[low:high]
            distribution *= _DISCOUNT * len(seen) / seen.sum()
            distribution[keys[low:high] - number * self.size] += (seen - _DISCOUNT) / seen.sum()
        return distribution

    def _number(self, tokens: tuple[int, ...]) -> int | None:
        """Return the number of these tokens among counted ones; None if they are not counted."""
        number = 0
        for (keys, _), token in zip(self.levels, tokens, strict=False):
            key = number * self.size + token
            number = int(np.searchsorted(keys, key))
            if number == len(keys) or keys[number] != key:
                return None
        return number


class NgramDraftModel:
    """One sequence on an n-gram model. A node is the last n - 1 tokens of a text."""

    def __init__(self, model: NgramModel) -> None:
        self.model = model
        self.contexts: list[tuple[int, ...]] = []
        self.nodes: dict[tuple[int, ...], int] = {}

    @property
    def evaluated(self) -> int:
        return 0  # a lookup costs next to nothing

    def follow(self, ids: Sequence[int]) -> int:
        self.contexts, self.nodes = [], {}
        return self._node(tuple(ids))

    def _node(self, tokens: tuple[int, ...]) -> int:
        context = tokens[max(0, len(tokens) - self.model.n + 1) :]
        node = self.nodes.setdefault(context, len(self.contexts))
        if node == len(self.contexts):
            self.contexts.append(context)
        return node

    def known(self, parent: int, token: int) -> int:
        return self._node((*self.contexts[parent], token))

    def extend(self, parents: Sequence[int], tokens: Sequence[int]) -> list[int]:
        return [self.known(p, t) for p, t in zip(parents, tokens, strict=True)]

    def row(self, node: int) -> torch.Tensor:
        return self.model.row(self.contexts[node])
