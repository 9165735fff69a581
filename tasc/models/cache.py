"""A preallocated key/value cache whose rejected tree nodes and rows are dropped in place."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from tasc.errors import UnavailableError
from tasc.models.compaction import compact


class KVCache:
    """Keys and values of all layers and sequences in one tensor: keeping paths is one indexed copy.

    ``data`` is (layers, 2, rows, heads, capacity, head_dim) in the model's dtype. Row b is a
    sequence: its first ``lengths[b]`` positions are its accepted tokens. A step writes its tokens
    behind the longest row, for all rows at ``length``; what lies between a row's own length and
    there is stale, and masked. A single sequence has nothing stale.
    """

    def __init__(self, layers: int, capacity: int, rows: int = 1) -> None:
        """Plan for ``rows`` sequences of ``capacity`` positions; taken at the first write."""
        self.layers, self.capacity, self.rows = layers, capacity, rows
        self.lengths = np.zeros(0, np.int64)  # of the rows in use, which are the first ones
        self.first = self.length = 0  # where the next forward writes: its first row and position
        self.data: torch.Tensor | None = None

    def write(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store ``keys`` and ``values`` (B, H, q, d) behind what is kept; return views of all."""
        data = self._ensure(keys)
        end = self.length + keys.shape[2]
        held = data[layer, :, self.first : self.first + keys.shape[0], :, :end]
        try:
            held[0, :, :, self.length :] = keys
            held[1, :, :, self.length :] = values
        except RuntimeError as error:
            raise UnavailableError(
                f"layer {layer} has keys of shape {tuple(keys.shape[1:])} unlike layer 0: decode "
                "this model with transformers"
            ) from error
        return held[0], held[1]

    def _ensure(self, keys: torch.Tensor) -> torch.Tensor:
        _, heads, new, dim = keys.shape
        needed = self.length + new
        if self.data is None or needed > self.capacity:
            self.capacity = max(self.capacity, 2 * needed if self.data is not None else needed)
            shape = (self.layers, 2, self.rows, heads, self.capacity, dim)
            grown = keys.new_zeros(shape)  # a masked key's weight is 0, but 0 · NaN is not
            if self.data is not None:
                held = int(self.lengths.max(initial=self.length))
                grown[..., :held, :] = self.data[..., :held, :]
            self.data = grown
        return self.data

    def clear(self) -> None:
        """Forget all rows; the memory stays."""
        self._commit(np.zeros(0, np.int64))

    def open(self) -> None:
        """Let the next forward fill new rows, from position 0."""
        self.first, self.length = len(self.lengths), 0

    def fill(self, lengths: Sequence[int]) -> None:
        """Accept what that forward wrote: new rows, of which the first ``lengths`` count."""
        self._commit(np.append(self.lengths, np.array(lengths, np.int64)))

    @torch.inference_mode()
    def keep(self, paths: Sequence[Sequence[int] | np.ndarray]) -> None:
        """Accept for each row the last token and the tree nodes of its path; drop all others.

        Node i was written at ``length + 1 + i``. A path that is already in place costs nothing.
        """
        moves: list[tuple[int, int, int]] = []
        for row, (path, own) in enumerate(zip(paths, self.lengths.tolist(), strict=True)):
            # Nodes rise along a path, so it is in place when its last node is where it would go.
            if own == self.length and (len(path) == 0 or path[-1] == len(path) - 1):
                continue
            moves += [(row, self.length, own)]
            moves += [(row, self.length + 1 + node, own + 1 + i) for i, node in enumerate(path)]
        if moves and self.data is not None:
            compact(self.data, np.array(moves, np.int32))
        self._commit(self.lengths + [len(path) + 1 for path in paths])

    def advance(self, count: int) -> None:
        """Accept the ``count`` positions that the last forward wrote; for a single sequence."""
        self._commit(self.lengths + count)

    @torch.inference_mode()
    def select(self, count: int, positions: Sequence[int]) -> None:
        """Keep the first ``count`` positions and, behind them, those at ``positions``, ascending.

        For a single sequence.
        """
        end = count + len(positions)
        if len(positions) and positions[-1] != end - 1 and self.data is not None:
            at = torch.tensor(positions, device=self.data.device)
            self.data[..., count:end, :] = self.data[..., at, :]
        self._commit(np.array([end], np.int64))

    @torch.inference_mode()
    def drop(self, row: int) -> None:
        """Forget a row; the last one takes its position."""
        last = len(self.lengths) - 1
        if row != last and self.data is not None:
            held = int(self.lengths[last])
            self.data[:, :, row, :, :held] = self.data[:, :, last, :, :held]
            self.lengths[row] = held
        self._commit(self.lengths[:last])

    def _commit(self, lengths: np.ndarray) -> None:
        self.lengths = lengths
        self.first, self.length = 0, int(lengths.max(initial=0))


class Layer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's face of memory that takes care of itself; a forward calls ``update`` once."""

    is_sliding = False

    def __init__(self) -> None:
        """Say that the memory is there."""
        super().__init__()
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do."""


class _Layer(Layer):
    """One layer's face of the kv_cache, which makes itself at the first write."""

    def __init__(self, kv_cache: KVCache, index: int) -> None:
        super().__init__()
        self.kv_cache, self.index = kv_cache, index

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *_args: Any,  # noqa: ANN401
        **_kwargs: Any,  # noqa: ANN401
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store this step's keys and values and return all of them, accepted ones first."""
        return self.kv_cache.write(self.index, key_states, value_states)

    def get_seq_length(self) -> int:
        """Return the number of positions before those of this step."""
        return self.kv_cache.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the keys this step sees and the position of the first."""
        return self.kv_cache.length + query_length, 0

    def get_max_length(self) -> int:
        """Return -1: the kv_cache grows when it must."""
        return -1


def tree_cache(layers: int, capacity: int, rows: int = 1) -> tuple[Cache, KVCache]:
    """Make a cache for ``rows`` sequences: the object the model takes, the kv_cache behind it."""
    kv_cache = KVCache(layers, capacity, rows)
    return Cache(layers=[_Layer(kv_cache, i) for i in range(layers)]), kv_cache
