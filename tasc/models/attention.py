"""Tree attention, registered with transformers' attention interface: no forked model files.

The query heads of a group use the same keys, so they are folded into more queries of one head.
torch's ``enable_gqa`` is slower for few queries (ten times for one query in bfloat16 on a CPU), and
on CUDA no fused kernel combines it with a mask.
"""

from collections.abc import Hashable
from typing import Any

import torch
from torch.nn import functional
from transformers import PreTrainedModel

from tasc import _native
from tasc.errors import UnavailableError
from tasc.models import packed, ragged
from tasc.models.packed import can_pack

NAME = "tasc"
_FEW = 16  # queries
_MAX_HEAD_DIM = 256  # of the native kernel
_STATELESS = {"full_attention", "sliding_attention", "chunked_attention"}


def register() -> str:
    """Register the attention with transformers; return its name."""
    from transformers import AttentionInterface

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
    return bool(model._is_stateful or layer_types(model) - _STATELESS)


def check_stateless(model: PreTrainedModel) -> None:
    """Raise UnavailableError for layers that store more than keys and values."""
    if is_stateful(model):
        raise UnavailableError(
            f"{type(model).__name__} has layers with a recurrent state, which this method cannot "
            "restore: use a model with attention in all layers"
        )


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
    queries, keys = query.shape[2], key.shape[2]
    if attention_mask is not None and attention_mask.dtype == torch.int32:
        near = attention_mask < (sliding_window or torch.iinfo(torch.int32).max)
        attention_mask = (attention_mask >= 0) & near
    elif sliding_window is not None and keys > sliding_window:
        base = _causal(queries, keys, query.device) if attention_mask is None else attention_mask
        attention_mask = base & _window(queries, keys, sliding_window, position_ids, query.device)
    if _has_kernel(query, key, value):
        return _native_attend(query, key, value, attention_mask, scaling, softcap, s_aux), None
    if softcap is not None or s_aux is not None:
        return _explicit(query, key, value, attention_mask, scaling, softcap, s_aux), None
    if attention_mask is None and queries not in (1, keys):
        attention_mask = _causal(queries, keys, query.device)
    causal = attention_mask is None and queries > 1
    grouped = query.shape[1] != key.shape[1]
    if grouped and not causal and (queries <= _FEW or query.is_cuda):
        folded = _fold(query, key.shape[1])
        mask = None if attention_mask is None else _tile(attention_mask, query, key)
        out = functional.scaled_dot_product_attention(folded, key, value, mask, scale=scaling)
        return out.reshape(*query.shape[:3], value.shape[3]).transpose(1, 2), None
    out = functional.scaled_dot_product_attention(
        query, key, value, attention_mask, scale=scaling, is_causal=causal, enable_gqa=grouped
    )
    return out.transpose(1, 2), None


def _has_kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    return (
        not torch.compiler.is_compiling()
        and query.device.type == "cpu"
        and query.dtype == key.dtype
        and query.dtype in packed.DTYPES
        and key.shape[3] == value.shape[3]
        and query.shape[3] <= _MAX_HEAD_DIM
        and can_pack()
        and not (torch.is_grad_enabled() and query.requires_grad)
    )


def _native_attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attend so that the bits of a query's output depend only on the keys that it attends to.

    It takes these keys in the order of their slots, and adds by their rank among them. Matrix
    products over all slots would add zeros for hidden keys in between, and so in another order.
    """
    batch, heads, queries, d = query.shape
    query, key, value = (x if x.stride(3) == 1 else x.contiguous() for x in (query, key, value))
    out = query.new_empty(batch, queries, heads, d)
    strides = [x.stride()[:3] for x in (query, key, value)]
    if mask is not None:
        mask = mask.expand(batch, 1, queries, key.shape[2])
        mask = mask if mask.stride(3) == 1 else mask.contiguous()
        strides.append((mask.stride(0), mask.stride(2), 0))
    if sinks is not None:
        sinks = sinks.float().contiguous()
    addresses = (0 if x is None else x.data_ptr() for x in (query, key, value, out, mask, sinks))
    _native.attend(
        tuple(addresses),
        (batch, heads, key.shape[1], queries, key.shape[2], d),
        (*strides, (0, 0, 0))[:4],
        query.dtype == torch.bfloat16,
        scaling or d**-0.5,
        softcap or 0.0,
        packed.thread_pool(),
    )
    return out


def _fold(query: torch.Tensor, heads: int) -> torch.Tensor:
    """Reshape ``query`` (B, H, q, d) to (B, heads, H / heads * q, d)."""
    return query.reshape(len(query), heads, -1, query.shape[3])


def _tile(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Repeat ``mask`` (B, 1, q, k) for the folded queries."""
    return mask.repeat(1, 1, query.shape[1] // key.shape[1], 1)


def _causal(queries: int, keys: int, device: torch.device) -> torch.Tensor:
    mask = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return mask.tril(keys - queries)[None, None]


def _window(
    queries: int, keys: int, window: int, position_ids: torch.Tensor | None, device: torch.device
) -> torch.Tensor:
    """Return a mask (B, 1, q, k) of the keys fewer than ``window`` positions back.

    Earlier keys are at their positions; ``position_ids`` (B, q) are the queries', as tree nodes
    share positions.
    """
    before = torch.arange(keys - queries, device=device)
    if position_ids is None:
        position_ids = torch.arange(keys - queries, keys, device=device)[None]
    position_ids = position_ids[:, -queries:]  # Gemma 4 drops the other queries before some layers
    positions = torch.cat([before.expand(len(position_ids), -1), position_ids], dim=1)
    return position_ids[:, None, :, None] - positions[:, None, None, :] < window


def _explicit(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attend with what the fused kernels lack: capped scores (Gemma 2) or sinks (gpt-oss)."""
    queries, keys, heads = query.shape[2], key.shape[2], key.shape[1]
    seen = _causal(queries, keys, query.device) if mask is None else mask
    scores = _fold(query, heads) @ key.transpose(2, 3) * (scaling or query.shape[-1] ** -0.5)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores.masked_fill(~_tile(seen, query, key), float("-inf"))
    if sinks is not None:
        column = sinks.reshape(1, heads, -1, 1, 1).expand(len(scores), -1, -1, queries, 1)
        scores = torch.cat([scores, column.reshape(*scores.shape[:3], 1).to(scores.dtype)], dim=-1)
    weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)[..., :keys]
    return (weights @ value).reshape(*query.shape[:3], value.shape[3]).transpose(1, 2)
