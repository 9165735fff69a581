"""Tree attention, registered with transformers' attention interface: no forked model files.

The query heads of a group use the same keys, so they are folded into more queries of one head.
torch's ``enable_gqa`` is slower for few queries (ten times for one query in bfloat16 on a CPU), and
on CUDA no fused kernel combines it with a mask.
"""

import itertools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import AttentionInterface, PreTrainedModel

from tasc import _native
from tasc.backend import cuda
from tasc.errors import UnavailableError
from tasc.models import invariant, packed, ragged
from tasc.models.packed import can_pack

NAME = "tasc"
_FEW = 16  # queries
MAX_HEAD_DIM = 256  # of the native kernel
_STATELESS = {"full_attention", "sliding_attention", "chunked_attention"}


def register() -> str:
    """Register the attention with transformers; return its name."""
    AttentionInterface.register(NAME, attend)
    return NAME


def layer_types(model: PreTrainedModel) -> set[str]:
    """Return the types of a model's layers, if config.json states them."""
    return set(getattr(model.config.get_text_config(), "layer_types", None) or ())


def layer_kinds(model: PreTrainedModel) -> list[Hashable]:
    """Return a kind for each layer, such that all layers of a kind have keys of one shape.

    Layers that share the keys of another layer (Gemma 4) are of kinds that store none.
    """
    config = model.config.get_text_config()
    layers = range(int(config.num_hidden_layers))
    own = getattr(config, "per_layer_config", None)
    names = ("head_dim", "num_key_value_heads")
    shapes = [tuple(getattr(own[i], name, None) for name in names) if own else () for i in layers]
    shares = getattr(config, "kv_sharing_modes", None) or [None] * len(layers)
    return [(shape, how == "reuse") for shape, how in zip(shapes, shares, strict=True)]


def is_stateful(model: PreTrainedModel) -> bool:
    """Return whether some layers store more than keys and values."""
    return bool(getattr(model, "_is_stateful", False) or layer_types(model) - _STATELESS)


def check_stateless(model: PreTrainedModel) -> None:
    """Raise UnavailableError for layers that store more than keys and values."""
    if is_stateful(model):
        raise UnavailableError(
            f"{type(model).__name__} has layers with a recurrent state, which this method cannot "
            "restore: use a model with attention in all layers"
        )


def replace(model: PreTrainedModel) -> None:
    """Replace the attention of ``model``, or raise UnavailableError if transformers cannot."""
    if model.config._attn_implementation != NAME:
        model.set_attn_implementation(register())
    if model.config._attn_implementation != NAME:
        raise UnavailableError(
            f"{type(model).__name__} does not let its attention be replaced: decode it with "
            "transformers"
        )


def most_positions(model: PreTrainedModel) -> int:
    """Return the number of positions that ``model`` can attend over; 0: any."""
    config = model.config.get_text_config()
    positions = int(getattr(config, "max_position_embeddings", 0) or 0)
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":  # longer texts change the angles of all keys
        positions = int(rope.get("original_max_position_embeddings") or positions)
    if "chunked_attention" not in layer_types(model):
        return positions
    chunk = int(config.attention_chunk_size)  # our mask does not hide other chunks
    return min(positions or chunk, chunk)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    position_ids: torch.Tensor | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,  # noqa: ANN401 - whatever else a model passes to its attention
) -> tuple[torch.Tensor, None]:
    """Attend from ``query`` (B, H, q, d) to ``key`` and ``value`` (B, H_kv, k, d).

    The last q keys belong to the queries. ``attention_mask`` (B, 1, q, k) is True where a query
    may attend; None means causal. An int32 mask holds the distance from query to key in positions,
    negative where the query may not attend. ``s_aux`` (H,) are the scores of attention sinks,
    which take weight and contribute nothing. Returns (B, q, H, d).
    """
    if len(query) < len(key) and (placed := ragged.current.get()) is not None:
        query = placed.pad_heads(query)
        position_ids = None if position_ids is None else placed.pad(position_ids)
        more = dropout, scaling, sliding_window, softcap, position_ids, s_aux
        return placed.flatten(attend(module, query, key, value, attention_mask, *more)[0]), None
    size = query.shape[2], key.shape[2]
    mask = visible(attention_mask, size, sliding_window, position_ids, query.device)
    heads = _Heads(query, key, value, mask, scaling, softcap, s_aux)
    if heads.have_kernel():
        return heads.attend_natively(), None
    if softcap is not None or s_aux is not None:
        return heads.attend_explicitly(), None
    return heads.attend_fused(), None


def visible(
    mask: torch.Tensor | None,
    size: tuple[int, int],
    window: int | None,
    position_ids: torch.Tensor | None,
    device: torch.device,
) -> torch.Tensor | None:
    """Return ``mask`` as truth values, which hide keys ``window`` or more positions back.

    ``size`` has the numbers of queries and keys; the rest is as in ``attend``.
    """
    if mask is not None and mask.dtype == torch.int32:
        return (mask >= 0) & (mask < (window or torch.iinfo(torch.int32).max))
    queries, keys = size
    if window is None or keys <= window:
        return mask
    every = torch.arange(keys, device=device)  # positions, except of tree nodes
    own = every[None] if position_ids is None else position_ids
    own = own[:, -queries:]  # Gemma 4 drops other queries before some layers
    positions = torch.cat([every[: keys - queries].expand(len(own), -1), own], dim=1)
    near = own[:, None, :, None] - positions[:, None, None, :] < window
    return near & (_causal(size, device) if mask is None else mask)


def _causal(size: tuple[int, int], device: torch.device) -> torch.Tensor:
    return torch.ones(size, dtype=torch.bool, device=device).tril(size[1] - size[0])[None, None]


@dataclass(eq=False)
class _Heads:
    """The heads of a layer, with the mask and the options of ``attend``."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    scaling: float | None
    softcap: float | None
    sinks: torch.Tensor | None

    def have_kernel(self) -> bool:
        query, key = self.query, self.key
        return (
            not torch.compiler.is_compiling()
            and (invariant.active.get() or (query.device.type == "cpu" and can_pack()))
            and query.dtype == key.dtype
            and query.dtype in packed.DTYPES
            and key.shape[3] == self.value.shape[3]
            and query.shape[3] <= MAX_HEAD_DIM
            and not (torch.is_grad_enabled() and query.requires_grad)
        )

    def attend_natively(self) -> torch.Tensor:
        """Attend so that the bits of a query's output depend only on the keys that it attends to.

        It takes these keys in the order of their slots, and adds by their rank among them. Matrix
        products over all slots would add zeros for hidden keys in between, and so in another order.
        """
        batch, heads, queries, d = self.query.shape
        keys = self.key.shape[2]
        own = (self.query, self.key, self.value)
        query, key, value = (x if x.stride(3) == 1 else x.contiguous() for x in own)
        out = query.new_empty(batch, queries, heads, d)
        strides = [x.stride()[:3] for x in (query, key, value)]
        mask = None if self.mask is None else self.mask.expand(batch, 1, queries, keys)
        if mask is not None:
            mask = mask if mask.stride(3) == 1 else mask.contiguous()
            strides.append((mask.stride(0), mask.stride(2), 0))
        sinks = None if self.sinks is None else self.sinks.float().contiguous()
        tensors = (query, key, value, out, mask, sinks)
        shape = (batch, heads, key.shape[1], queries, keys, d)
        rest = query.dtype == torch.bfloat16, self.scaling or d**-0.5, self.softcap or 0.0
        if invariant.active.get():
            sizes = np.array([*shape, *itertools.chain(*strides, (0, 0))], np.int64)
            cuda.launch("tasc_attend", *tensors, sizes.ctypes.data, *rest)
            return out
        pointers = tuple(0 if x is None else x.data_ptr() for x in tensors)
        _native.attend(pointers, shape, (*strides, (0, 0, 0))[:4], *rest, packed.thread_pool())
        return out

    def attend_explicitly(self) -> torch.Tensor:
        """Attend with what the fused kernels lack: capped scores (Gemma 2) or sinks (gpt-oss)."""
        queries, keys, heads = self.query.shape[2], self.key.shape[2], self.key.shape[1]
        scaling = self.scaling or self.query.shape[-1] ** -0.5
        scores = self._folded() @ self.key.transpose(2, 3) * scaling
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        seen = _causal((queries, keys), scores.device) if self.mask is None else self.mask
        scores = scores.masked_fill(~self._tiled(seen), float("-inf"))
        if self.sinks is not None:
            column = self.sinks.reshape(1, heads, -1, 1, 1).expand(len(scores), -1, -1, queries, 1)
            column = column.reshape(*scores.shape[:3], 1).to(scores.dtype)
            scores = torch.cat([scores, column], dim=-1)
        weights = scores.softmax(-1, dtype=torch.float32).to(self.value.dtype)[..., :keys]
        return self._unfolded(weights @ self.value)

    def attend_fused(self) -> torch.Tensor:
        query, key, mask = self.query, self.key, self.mask
        queries = query.shape[2]
        if mask is None and queries not in (1, key.shape[2]):
            mask = _causal((queries, key.shape[2]), query.device)
        causal = mask is None and queries > 1
        grouped = query.shape[1] != key.shape[1]
        if grouped and not causal and (queries <= _FEW or query.is_cuda):
            tiled = None if mask is None else self._tiled(mask)
            attended = functional.scaled_dot_product_attention(
                self._folded(), key, self.value, tiled, scale=self.scaling
            )
            return self._unfolded(attended)
        return functional.scaled_dot_product_attention(
            query, key, self.value, mask, scale=self.scaling, is_causal=causal, enable_gqa=grouped
        ).transpose(1, 2)

    def _folded(self) -> torch.Tensor:
        """Return the queries (B, H_kv, H / H_kv * q, d): a group is more queries of one head."""
        return self.query.reshape(len(self.query), self.key.shape[1], -1, self.query.shape[3])

    def _unfolded(self, attended: torch.Tensor) -> torch.Tensor:
        return attended.reshape(*self.query.shape[:3], self.value.shape[3]).transpose(1, 2)

    def _tiled(self, mask: torch.Tensor) -> torch.Tensor:
        """Repeat ``mask`` (B, 1, q, k) for the folded queries."""
        return mask.repeat(1, 1, self.query.shape[1] // self.key.shape[1], 1)
