"""Decoders of Llama's kind, whose layers run in one native call.

A layer is some forty small operations besides its products, which took as long as the products.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_outputs import BaseModelOutputWithPast

from tasc import _native
from tasc.models import attention, packed, ragged
from tasc.models.cache import KVLayer, cache_argument

_KINDS = {f"{name}Model" for name in ("Llama", "Mistral", "Qwen2", "Qwen3")}


def fuse(model: PreTrainedModel) -> None:
    """Fuse the layers of ``model`` if they are of one shape and their linear layers are packed.

    A fused decoder runs as it was with another attention or cache, or with gradients.
    """
    for part in model.modules():
        if type(part).__name__ not in _KINDS or "forward" in vars(part):
            continue
        if len(set(attention.layer_kinds(model))) == 1 and all(map(_is_packed, part.layers)):
            part.forward = FusedDecoder(part).forward


def unfuse(model: PreTrainedModel) -> None:
    """Let fused decoders of ``model`` run layer by layer again."""
    for part in model.modules():
        if _is_fused(part):
            del part.forward


def is_fused(model: PreTrainedModel) -> bool:
    """Return whether ``model`` has a fused decoder."""
    return any(map(_is_fused, model.modules()))


def _is_fused(part: nn.Module) -> bool:
    return isinstance(getattr(vars(part).get("forward"), "__self__", None), FusedDecoder)


def _linears(layer: Any) -> list[Any]:  # noqa: ANN401 - a layer of any model
    own, mlp = layer.self_attn, layer.mlp
    attending = [own.q_proj, own.k_proj, own.v_proj, own.o_proj]
    return [*attending, mlp.gate_proj, mlp.up_proj, mlp.down_proj]


def _norms(layer: Any) -> list[Any]:  # noqa: ANN401 - a layer of any model
    heads = [getattr(layer.self_attn, name, None) for name in ("q_norm", "k_norm")]
    return [layer.input_layernorm, layer.post_attention_layernorm, *heads]


def _is_packed(layer: Any) -> bool:  # noqa: ANN401 - a layer of any model
    linears, norms = _linears(layer), [norm for norm in _norms(layer) if norm is not None]
    return (
        all(type(linear) is packed.PackedLinear for linear in linears)
        and layer.self_attn.head_dim <= attention.MAX_HEAD_DIM
        and isinstance(layer.mlp.act_fn, nn.SiLU | type(ACT2FN["silu"]))
        and {norm.weight.dtype for norm in norms} == {linears[0].dtype}
        and len({norm.variance_epsilon for norm in norms}) == 1
    )


class FusedDecoder:
    """The forward of a decoder. Its rows have the same bits in any company."""

    def __init__(self, decoder: Any) -> None:  # noqa: ANN401 - a decoder of any model
        """Take the weights of ``decoder``, which stay where they are."""
        self.decoder = decoder
        self.plain: Callable[..., BaseModelOutputWithPast] = decoder.forward
        self.cache_argument = cache_argument(decoder)
        layers = list(decoder.layers)
        own = self.attention = layers[0].self_attn
        mistral = type(own).__name__ == "MistralAttention"  # one window for all layers
        windowed = [layer.self_attn.config if mistral else layer.self_attn for layer in layers]
        self.windows = [getattr(one, "sliding_window", None) for one in windowed]
        norms = [_norms(layer) for layer in layers]
        self.weights = [[None if n is None else n.weight.detach() for n in each] for each in norms]
        self.native = _native.Decoder(
            [tuple(linear.matrix for linear in _linears(layer)) for layer in layers],
            [tuple(0 if w is None else w.data_ptr() for w in each) for each in self.weights],
            [each[0].variance_epsilon for each in norms],
            own.head_dim,
            own.scaling,
        )

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        *arguments: Any,  # noqa: ANN401 - other arguments that a caller passes by position
        **kwargs: Any,  # noqa: ANN401 - other arguments of a decoder, and its cache
    ) -> BaseModelOutputWithPast:
        """Return the last hidden states (B, q, hidden); arguments as in transformers."""
        given_cache = kwargs.get(self.cache_argument)
        kv = (getattr(given_cache, "layers", None) or [None])[0]
        other = self.attention.config._attn_implementation != attention.NAME or bool(arguments)
        other = other or torch.is_grad_enabled() or not isinstance(kv, KVLayer)
        if other or input_ids is None or position_ids is None:
            return self.plain(input_ids, attention_mask, position_ids, *arguments, **kwargs)
        x = self.decoder.embed_tokens(input_ids).to(self.attention.q_proj.dtype)
        cos, sin = (each.contiguous() for each in self.decoder.rotary_emb(x, position_ids))
        placed, sizes = ragged.current.get(), [x.shape[1]] * x.shape[0]
        if placed is not None:
            sizes, position_ids = list(placed.sizes), placed.pad(position_ids)
        cache, own, d = kv.kv_cache, self.attention, self.attention.head_dim
        size = max(sizes), cache.length + max(sizes)
        data = cache.room(0, x.new_empty(len(sizes), own.k_proj.out_features // d, size[0], d))
        masks: dict[int | None, torch.Tensor] = {}
        for window in set(self.windows):
            mask = attention.visible(attention_mask, size, window, position_ids, x.device)
            if mask is not None:
                masks[window] = mask.expand(len(sizes), 1, *size).contiguous()
        self.native.run(
            tuple(each.data_ptr() for each in (x, cos, sin, data)),  # all layers follow layer 0
            sizes,
            cos.numel() // d,
            (data.shape[1], data.shape[3], cache.first, cache.length),
            [masks[window].data_ptr() if window in masks else 0 for window in self.windows],
            packed.thread_pool(),
        )
        return BaseModelOutputWithPast(self.decoder.norm(x), given_cache)
