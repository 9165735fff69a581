"""A preallocated key/value cache that drops rejected tree nodes and finished rows in place."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from tasc.errors import UnavailableError
from tasc.models.compaction import compact


class KVCache:
    """Keys and values of all layers and sequences in one tensor, so keeping paths is one copy.

    ``data`` is (layers, 2, rows, heads, capacity, head_dim) in the model's dtype. Each row is a
    sequence; its first ``lengths[row]`` positions are its accepted tokens. A step writes the tokens
    of all rows at ``length``, the end of the longest row. Positions between a row's own length and
    ``length`` are stale and masked.
    """

    def __init__(self, layers: int, capacity: int, rows: int = 1) -> None:
        """Plan for ``rows`` sequences of ``capacity`` positions; the first write allocates."""
        self.layers, self.capacity, self.rows = layers, capacity, rows
        self.lengths = np.zeros(0, np.int64)  # of the rows in use, which come first
        self.first = self.length = 0  # first row and position that the next forward writes
        self.data: torch.Tensor | None = None

    def write(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store ``keys`` and ``values`` (B, H, q, d); return views of all positions so far."""
        data = self._ensure(keys)
        end = self.length + keys.shape[2]
        view = data[layer, :, self.first : self.first + keys.shape[0], :, :end]
        try:
            view[0, :, :, self.length :] = keys
            view[1, :, :, self.length :] = values
        except RuntimeError as error:
            raise UnavailableError(
                f"layer {layer} has keys of shape {tuple(keys.shape[1:])}, unlike layer 0: decode "
                "this model with transformers"
            ) from error
        return view[0], view[1]

    def _ensure(self, keys: torch.Tensor) -> torch.Tensor:
        _, heads, new, dim = keys.shape
        needed = self.length + new
        if self.data is None or needed > self.capacity:
            self.capacity = max(self.capacity, 2 * needed if self.data is not None else needed)
            shape = (self.layers, 2, self.rows, heads, self.capacity, dim)
            grown = keys.new_zeros(shape)  # a masked key has weight 0, but 0 · NaN is NaN
            if self.data is not None:
                used = int(self.lengths.max(initial=self.length))
                grown[..., :used, :] = self.data[..., :used, :]
            self.data = grown
        return self.data

    def clear(self) -> None:
        """Drop all rows; keep the memory."""
        self._commit(np.zeros(0, np.int64))

    def open(self) -> None:
        """Let the next forward write new rows from position 0."""
        self.first, self.length = len(self.lengths), 0

    def fill(self, lengths: Sequence[int]) -> None:
        """Accept the new rows that this forward wrote, up to ``lengths`` tokens each."""
        self._commit(np.append(self.lengths, np.array(lengths, np.int64)))

    @torch.inference_mode()
    def keep(self, paths: Sequence[Sequence[int] | np.ndarray]) -> None:
        """Accept the last token of each row and the tree nodes of its path; drop the other nodes.

        Node i was written at ``length + 1 + i``. Paths that are already in place are not copied.
        """
        moves: list[tuple[int, int, int]] = []
        for row, (path, own) in enumerate(zip(paths, self.lengths.tolist(), strict=True)):
            # Node numbers rise along a path, so it is in place if its last node is.
            if own == self.length and (len(path) == 0 or path[-1] == len(path) - 1):
                continue
            moves += [(row, self.length, own)]
            moves += [(row, self.length + 1 + node, own + 1 + i) for i, node in enumerate(path)]
        if moves and self.data is not None:
            compact(self.data, np.array(moves, np.int32))
        self._commit(self.lengths + [len(path) + 1 for path in paths])

    def advance(self, count: int) -> None:
        """Accept the ``count`` positions that the last forward wrote, of a single sequence."""
        self._commit(self.lengths + count)

    @torch.inference_mode()
    def select(self, count: int, positions: Sequence[int]) -> None:
        """Keep the first ``count`` positions of a single sequence, then the ``positions``.

        ``positions`` ascend.
        """
        end = count + len(positions)
        if len(positions) and positions[-1] != end - 1 and self.data is not None:
            at = torch.tensor(positions, device=self.data.device)
            self.data[..., count:end, :] = self.data[..., at, :]
        self._commit(np.array([end], np.int64))

    @torch.inference_mode()
    def drop(self, row: int) -> None:
        """Drop a row; the last row moves to its number."""
        last = len(self.lengths) - 1
        if row != last and self.data is not None:
            length = int(self.lengths[last])
            self.data[:, :, row, :, :length] = self.data[:, :, last, :, :length]
            self.lengths[row] = length
        self._commit(self.lengths[:last])

    def _commit(self, lengths: np.ndarray) -> None:
        self.lengths = lengths
        self.first, self.length = 0, int(lengths.max(initial=0))


class Layer(CacheLayerMixin):  # type: ignore[misc]
    """transformers' view of one layer of a cache that allocates its own memory."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        pass


class KVLayer(Layer):
    """One attention layer of a KVCache."""

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
        return self.kv_cache.write(self.index, key_states, value_states)

    def get_seq_length(self) -> int:
        return self.kv_cache.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.kv_cache.length + query_length, 0

    def get_max_length(self) -> int:
        return -1  # it grows


def tree_cache(layers: int, capacity: int, rows: int = 1) -> tuple[Cache, KVCache]:
    """Make a cache for ``rows`` sequences; return it as the model takes it, and as KVCache."""
    kv_cache = KVCache(layers, capacity, rows)
    return Cache(layers=[KVLayer(kv_cache, i) for i in range(layers)]), kv_cache
