"""A preallocated key/value cache whose rejected tree nodes are dropped in place."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from tasc.errors import UnavailableError


class Storage:
    """Keys and values of all layers in one tensor, so that keeping a path is one indexed copy.

    ``data`` is (layers, 2, heads, capacity, head_dim) in the model's dtype; the first ``length``
    positions are the accepted tokens, what lies behind them belongs to the step in flight.
    """

    def __init__(self, layers: int, capacity: int) -> None:
        """Plan for ``capacity`` positions; memory is taken at the first write."""
        self.layers = layers
        self.capacity = capacity
        self.length = 0
        self.data: torch.Tensor | None = None

    def write(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store ``keys`` and ``values`` (1, H, q, d) behind what is kept; return views of all."""
        data = self._ensure(keys)
        end = self.length + keys.shape[2]
        held = data[layer]
        try:
            held[0, :, self.length : end] = keys[0]
            held[1, :, self.length : end] = values[0]
        except RuntimeError as error:
            raise UnavailableError(
                f"layer {layer} has keys of shape {tuple(keys.shape[1:])} unlike layer 0: models "
                "with layers of different shapes are not supported"
            ) from error
        return held[0, None, :, :end], held[1, None, :, :end]

    def _ensure(self, keys: torch.Tensor) -> torch.Tensor:
        _, heads, new, dim = keys.shape
        needed = self.length + new
        if self.data is None or needed > self.capacity:
            self.capacity = max(self.capacity, 2 * needed if self.data is not None else needed)
            grown = keys.new_empty((self.layers, 2, heads, self.capacity, dim))
            if self.data is not None:
                grown[:, :, :, : self.length] = self.data[:, :, :, : self.length]
            self.data = grown
        return self.data

    @torch.inference_mode()
    def keep(self, path: Sequence[int] | np.ndarray) -> None:
        """Accept the last token and the tree nodes of ``path``; drop every other node in flight.

        Node i was written at ``length + 1 + i``. A path that is already in place costs nothing.
        """
        start = self.length + 1
        self.length = start + len(path)
        # Nodes rise along a path, so it is in place when its last node is where it would go.
        if len(path) == 0 or path[-1] == len(path) - 1 or self.data is None:
            return
        source = torch.as_tensor(path, device=self.data.device) + start
        self.data[:, :, :, start : self.length] = self.data[:, :, :, source]


class _Layer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's face of the storage; the model calls ``update`` once a forward."""

    is_sliding = False

    def __init__(self, storage: Storage, index: int) -> None:
        super().__init__()
        self.storage, self.index = storage, index
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do: the storage makes itself at the first write."""

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *_args: Any,  # noqa: ANN401
        **_kwargs: Any,  # noqa: ANN401
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store this step's keys and values and return all of them, accepted ones first."""
        return self.storage.write(self.index, key_states, value_states)

    def get_seq_length(self) -> int:
        """Return the number of accepted tokens."""
        return self.storage.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the keys this step sees and the position of the first."""
        return self.storage.length + query_length, 0

    def get_max_length(self) -> int:
        """Return -1: the storage grows when it must."""
        return -1


def tree_cache(layers: int, capacity: int) -> tuple[Cache, Storage]:
    """Make a cache for one sequence: the object the model takes and the storage behind it."""
    storage = Storage(layers, capacity)
    return Cache(layers=[_Layer(storage, i) for i in range(layers)]), storage
