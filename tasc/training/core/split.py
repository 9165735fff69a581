"""New tokens written out as the base tokens they are made of, all of them or some."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from tasc.models.embeddings import NewEmbedding
from tasc.training.core.batch import Sequences


class Splitter:
    """Writes new tokens out as their base tokens."""

    def __init__(self, added: Sequence[NewEmbedding]) -> None:
        """Know the base tokens of ``added``."""
        ids = [token.new_id for token in added]
        self._lengths = np.ones(max(ids, default=-1) + 2, np.int64)
        self._starts = np.zeros_like(self._lengths)
        self._lengths[ids] = [len(token.base_ids) for token in added]
        self._starts[ids] = np.cumsum(self._lengths[ids]) - self._lengths[ids]
        self._pieces = np.array([i for token in added for i in token.base_ids], np.int32)
        self._new = np.zeros(len(self._lengths), bool)
        self._new[ids] = True

    def is_new(self, tokens: np.ndarray) -> np.ndarray:
        """Return where ``tokens`` (T,) are new ones, (T,) bool."""
        found: np.ndarray = self._new[np.minimum(tokens, len(self._new) - 1)]
        return found

    def split(self, data: Sequences, chosen: np.ndarray) -> tuple[Sequences, np.ndarray]:
        """Write out the tokens at ``chosen`` (T,) bool; those that are not new stay.

        ``data`` has one document a row. Base tokens are targets where their token was one.

        Returns:
            The sequences with T' tokens, and (T',) int64: which of the T tokens each belongs to.
        """
        chosen = chosen & self.is_new(data.tokens)
        tokens = np.where(chosen, data.tokens, len(self._lengths) - 1)
        counts = self._lengths[tokens]
        owners = np.repeat(np.arange(len(tokens)), counts)
        ends = np.concatenate([[0], np.cumsum(counts)])
        written = data.tokens[owners].copy()
        within = np.arange(len(owners)) - ends[owners]
        pieces = np.flatnonzero(chosen[owners])
        written[pieces] = self._pieces[self._starts[written[pieces]] + within[pieces]]
        offsets = ends[data.offsets]
        positions = np.arange(len(owners)) - np.repeat(offsets[:-1], np.diff(offsets))
        sequences = Sequences(
            written, data.targets[owners], positions.astype(np.int32), offsets, cut=data.cut
        )
        return sequences, owners


def annealed(
    data: Sequences, added: Sequence[NewEmbedding], share: float, epochs: float, seed: int
) -> Callable[[int], Sequences]:
    """Return the data of each epoch: at first ``share`` of the new tokens are written out.

    The share falls to none in the last epoch. So the model learns the base tokens' way to a text
    beside the new tokens' (BPE dropout, Provilkov et al., arXiv 1910.13267, for new tokens alone).
    """
    if not share:
        return lambda _: data
    splitter, last = Splitter(added), max(1, math.ceil(epochs) - 1)

    def of_epoch(epoch: int) -> Sequences:
        left = share * max(0.0, 1 - epoch / last)
        drawn = np.random.default_rng([seed, 0x5917, epoch]).random(len(data.tokens))
        return splitter.split(data, drawn < left)[0]

    return of_epoch
