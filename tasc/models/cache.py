"""A preallocated key/value cache that drops rejected tree nodes and finished rows in place.

transformers 5.24 renamed the argument in which models take a cache: ``past_key_values`` and, in
state-space models, ``cache_params`` became ``cache``. So its name is read from the signature.
"""

import inspect
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.cache_utils import Cache, DynamicLayer

from tasc import _native
from tasc.backend import cuda
from tasc.backend.base import refusals
from tasc.errors import InputError, UnavailableError
from tasc.models import ragged

ARGUMENTS = ("cache", "cache_params", "past_key_values")  # in which models take a cache


class KVCache:
    """Keys and values of all layers and sequences in one tensor, so keeping paths is one copy.

    Layers of different kinds have tensors of their own, as Gemma 4's heads are larger where they
    see the whole text. ``blocks`` are (layers, 2, rows, heads, capacity, dim) in the model's dtype,
    and ``data`` has the part of each layer. Where values are narrower than keys (multi-head latent
    attention), dim is the keys'. Each row is a sequence; its first ``lengths[row]`` positions are
    its accepted tokens. A step writes the tokens of all rows at ``length``, the end of the longest
    row, so each layer stores with one copy. Positions between a row's own length and ``length`` are
    stale and masked.
    """

    def __init__(self, kinds: Sequence[Hashable], capacity: int, rows: int = 1) -> None:
        """Plan for ``rows`` sequences of ``capacity`` positions; the first write allocates.

        ``kinds`` has the kind of each layer; the keys of a kind have one shape.
        """
        self.kinds, self.capacity, self.rows = kinds, capacity, rows
        self.lengths = np.zeros(0, np.int64)  # of the rows in use, which come first
        self.first = self.length = 0  # first row and position that the next forward writes
        self.blocks: dict[Hashable, torch.Tensor] = {}  # by kind
        self.data: list[torch.Tensor | None] = [None] * len(kinds)

    def write(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store ``keys`` and ``values`` (B, H, q, d); return views of all positions so far."""
        data, end = self.room(layer, keys), self.length + keys.shape[2]
        view = data[:, self.first : self.first + keys.shape[0], :, :end]
        stored, dim = view[0], values.shape[3]
        other = view[1] if dim == keys.shape[3] else view[1, ..., :dim]
        try:
            stored[:, :, self.length :] = keys
            other[:, :, self.length :] = values
        except RuntimeError as error:
            raise UnavailableError(
                f"layer {layer} has keys of shape {tuple(keys.shape[1:])}, unlike other layers of "
                "its kind: decode this model with transformers"
            ) from error
        return stored, other

    def room(self, layer: int, keys: torch.Tensor) -> torch.Tensor:
        """Return the ``data`` of a layer, with room for ``keys`` (B, H, q, d) at the end."""
        data, end = self.data[layer], self.length + keys.shape[2]
        return self._ensure(layer, keys, end) if data is None or end > data.shape[3] else data

    def _ensure(self, layer: int, keys: torch.Tensor, needed: int) -> torch.Tensor:
        """Allocate ``needed`` positions or more for the layers of a kind."""
        kind = self.kinds[layer]
        like = [i for i, other in enumerate(self.kinds) if other == kind]
        old = self.blocks.get(kind)
        if needed > self.capacity:
            self.capacity = needed if old is None else 2 * needed
        shape = (len(like), 2, self.rows, keys.shape[1], self.capacity, keys.shape[3])
        grown = keys.new_zeros(shape)  # a masked key has weight 0, but 0 · NaN is NaN
        if old is not None:
            used = int(self.lengths.max(initial=self.length))
            grown[..., :used, :] = old[..., :used, :]
        self.blocks[kind] = grown
        self.data = list(self.data)  # a new list shows that the old memory is not used
        for place, i in enumerate(like):
            self.data[i] = grown[place]
        return grown[like.index(layer)]

    def clear(self) -> None:
        """Drop all rows; keep the memory."""
        self._commit(np.zeros(0, np.int64))

    def open(self, rows: int, prefix: Mapping[Hashable, torch.Tensor] | None = None) -> None:
        """Let the next forward write ``rows`` new rows, after a ``prefix`` (as of ``row``)."""
        self.first, self.length = len(self.lengths), 0
        for kind, block in (prefix or {}).items():
            layer, end = self.kinds.index(kind), block.shape[4]
            if kind not in self.blocks or end > self.blocks[kind].shape[4]:
                self._ensure(layer, block[0, 0], end)
            self.blocks[kind][:, :, self.first : self.first + rows, :, :end] = block
            self.length = end

    def row(self, number: int) -> dict[Hashable, torch.Tensor]:
        """Return a copy of a row's accepted positions, by kind: (layers, 2, 1, heads, L, dim)."""
        end = int(self.lengths[number])
        rows = slice(number, number + 1)
        return {kind: block[:, :, rows, :, :end].clone() for kind, block in self.blocks.items()}

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
        for block in self.blocks.values() if moves else ():
            compact(block, np.array(moves, np.int32))
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
        moved = len(positions) and positions[-1] != end - 1
        for block in self.blocks.values() if moved else ():
            at = torch.tensor(positions, device=block.device)
            block[..., count:end, :] = block[..., at, :]
        self._commit(np.array([end], np.int64))

    @torch.inference_mode()
    def drop(self, row: int) -> None:
        """Drop a row; the last row moves to its number."""
        last = len(self.lengths) - 1
        if row != last:
            length = self.lengths[row] = self.lengths[last]
            for block in self.blocks.values():
                block[:, :, row, :, :length] = block[:, :, last, :, :length]
        self._commit(self.lengths[:last])

    def _commit(self, lengths: np.ndarray) -> None:
        self.lengths = lengths
        self.first, self.length = 0, int(lengths.max(initial=0))


class KVLayer(DynamicLayer):  # type: ignore[misc]
    """One attention layer of a KVCache, as transformers' models use it."""

    def __init__(self, kv_cache: KVCache, index: int) -> None:
        super().__init__()
        self.kv_cache, self.index = kv_cache, index
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if (placed := ragged.current.get()) is not None:
            key_states, value_states = map(placed.pad_heads, (key_states, value_states))
        return self.kv_cache.write(self.index, key_states, value_states)

    def get_seq_length(self) -> int:
        return self.kv_cache.length


def tree_cache(kinds: Sequence[Hashable], capacity: int, rows: int = 1) -> tuple[Cache, KVCache]:
    """Make a cache for ``rows`` sequences; return it as the model takes it, and as KVCache."""
    kv_cache = KVCache(kinds, capacity, rows)
    return Cache(layers=[KVLayer(kv_cache, i) for i in range(len(kinds))]), kv_cache


def cache_argument(model: nn.Module) -> str:
    """Return the name of the argument in which ``model`` takes a cache.

    A wrapper, such as a PEFT model, passes it on to the model inside. Raises UnavailableError
    for a model that takes no cache.
    """
    for module in model.modules():
        parameters = inspect.signature(module.forward).parameters
        for name in ARGUMENTS:
            if name in parameters:
                return name
    raise UnavailableError(
        f"{type(model).__name__} takes no cache under a known name ({', '.join(ARGUMENTS)}): "
        "decode it with transformers"
    )


def cache_among(inputs: Mapping[str, Any]) -> tuple[str, Cache] | None:
    """Return the name and the value of the cache among the ``inputs`` of a forward, if any."""
    caches = ((name, inputs.get(name)) for name in ARGUMENTS)
    return next(((name, cache) for name, cache in caches if cache is not None), None)


def compact_reference(data: torch.Tensor, moves: np.ndarray) -> None:
    """Compact in plain torch: the definition of ``compact``."""
    row, source, target = torch.from_numpy(moves).long().to(data.device).T
    data[..., row, :, target, :] = data[..., row, :, source, :]


def compact(data: torch.Tensor, moves: np.ndarray) -> None:
    """Move positions of rows in place, by ``moves`` (m, 3) int32.

    ``data`` (..., rows, heads, positions, d) is contiguous, of any dtype. A move is (row, source,
    target) with target <= source. Moves are sorted by row; within a row, sources and targets rise.
    Launches one kernel on CUDA, one native call on the CPU. Raises InputError for other moves on
    the CPU; on CUDA they are not checked, as that would wait for the device.
    """
    if data.is_cuda and cuda.library() is None:
        compact_reference(data, moves)
        return
    if data.dim() < 4 or not data.is_contiguous():
        raise InputError(
            "the cache must be contiguous, of shape (..., rows, heads, positions, d): got shape "
            f"{tuple(data.shape)}, strides {data.stride()}"
        )
    rows, heads, positions, d = data.shape[-4:]
    size = d * data.element_size()
    if not data.is_cuda:
        in_bytes = data.detach().view(torch.uint8).view(-1, rows, heads, positions, size)
        with refusals():
            _native.compact(in_bytes.numpy(), moves)
        return
    shape = (data.numel() // max(positions * d, 1), rows, heads, positions, size)
    there = torch.from_numpy(moves).to(data.device, non_blocking=True).contiguous()
    cuda.launch("tasc_compact", data, *shape, there, len(moves))
