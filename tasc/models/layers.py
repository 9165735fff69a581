"""Decoder layers of Llama's kind in two native calls around their attention.

A layer is some forty small operations besides its products, which took as long as the products.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from tasc import _native
from tasc.models import attention, packed

_KINDS = {f"{name}DecoderLayer" for name in ("Llama", "Mistral", "Qwen2", "Qwen3")}


def fuse(model: PreTrainedModel) -> None:
    """Fuse the decoder layers of ``model`` whose linear layers are all packed.

    A fused layer runs as it was with another attention, without a cache, or with gradients.
    """
    for layer in model.modules():
        if type(layer).__name__ in _KINDS and "forward" not in vars(layer) and _is_packed(layer):
            layer.forward = FusedLayer(layer).forward


def _linears(layer: Any) -> list[Any]:  # noqa: ANN401 - a layer of any model
    own, mlp = layer.self_attn, layer.mlp
    attending = [own.q_proj, own.k_proj, own.v_proj, own.o_proj]
    return [*attending, mlp.gate_proj, mlp.up_proj, mlp.down_proj]


def _norms(layer: Any) -> list[Any]:  # noqa: ANN401 - a layer of any model
    heads = [getattr(layer.self_attn, name, None) for name in ("q_norm", "k_norm")]
    return [layer.input_layernorm, layer.post_attention_layernorm, *heads]


def _is_packed(layer: Any) -> bool:  # noqa: ANN401 - a layer of any model
    linears = _linears(layer)
    if not all(type(linear) is packed.PackedLinear for linear in linears):
        return False
    norms = [norm for norm in _norms(layer) if norm is not None]
    return (
        isinstance(layer.mlp.act_fn, nn.SiLU | type(ACT2FN["silu"]))
        and {norm.weight.dtype for norm in norms} == {linears[0].dtype}
        and len({norm.variance_epsilon for norm in norms}) == 1
    )


class FusedLayer:
    """The forward of one decoder layer. Its rows have the same bits in any company."""

    def __init__(self, layer: Any) -> None:  # noqa: ANN401 - a layer of any model
        """Take the weights of ``layer``, which stay where they are."""
        self.plain: Callable[..., torch.Tensor] = layer.forward
        own = self.attention = layer.self_attn
        norms = _norms(layer)
        self.weights = [None if norm is None else norm.weight.detach() for norm in norms]
        self.d = own.head_dim
        mistral = type(own).__name__ == "MistralAttention"  # one window for all layers
        self.window = getattr(own.config if mistral else own, "sliding_window", None)
        self.native = _native.Layer(
            tuple(linear.matrix for linear in _linears(layer)),
            tuple(0 if weight is None else weight.data_ptr() for weight in self.weights),
            norms[0].variance_epsilon,
            self.d,
        )

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,  # noqa: ANN401 - a cache of transformers
        position_embeddings: tuple[torch.Tensor, torch.Tensor] | None = None,
        **kwargs: Any,  # noqa: ANN401 - whatever else a model passes to its layers
    ) -> torch.Tensor:
        """Return the output (B, q, hidden) of the layer; arguments as in transformers."""
        own = self.attention
        if past_key_values is None or position_embeddings is None or self._is_off():
            kwargs.update(attention_mask=attention_mask, position_ids=position_ids)
            kwargs.update(past_key_values=past_key_values, position_embeddings=position_embeddings)
            return self.plain(hidden_states, **kwargs)
        x = hidden_states.contiguous()
        query, key, value = self._project(x, position_embeddings)
        key, value = past_key_values.update(key, value, own.layer_idx)
        more = {"scaling": own.scaling, "sliding_window": self.window, "position_ids": position_ids}
        attended, _ = attention.attend(own, query, key, value, attention_mask, **more)
        attended, out = attended.contiguous(), torch.empty_like(x)
        data = x.data_ptr(), attended.data_ptr(), out.data_ptr()
        self.native.after_attention(data, x.shape[0] * x.shape[1], packed.thread_pool())
        return out

    def _is_off(self) -> bool:
        other = self.attention.config._attn_implementation != attention.NAME
        return other or torch.is_grad_enabled() or torch.compiler.is_compiling()

    def _project(
        self, x: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """Return queries (B, H, q, d), keys and values (B, H_kv, q, d) of ``x`` (B, q, hidden)."""
        own = self.attention
        cos, sin = (each.contiguous() for each in angles)
        widths = [linear.out_features for linear in (own.q_proj, own.k_proj, own.v_proj)]
        made = [x.new_empty(*x.shape[:2], width // self.d, self.d) for width in widths]
        data = tuple(each.data_ptr() for each in (x, cos, sin, *made))
        rows, positions = x.shape[0] * x.shape[1], cos.numel() // self.d
        self.native.before_attention(data, rows, positions, packed.thread_pool())
        return tuple(each.transpose(1, 2) for each in made)
