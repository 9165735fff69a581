"""Decoders of Llama's kind and of Gemma 3, whose layers run in one native call.

A layer is some forty small operations besides its products, which took as long as the products.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_outputs import BaseModelOutputWithPast

from tasc import _native
from tasc.models import attention, packed, ragged
from tasc.models.cache import KVLayer, cache_argument


@dataclass(frozen=True)
class Kind:
    """How the layers of a class of decoders are made."""

    activations: tuple[type[nn.Module], ...]  # classes of the gate's activation, which is SiLU
    norms: tuple[str, ...]  # before attention and MLP, and after both if there are four
    gelu: bool = False  # whether it is GELU instead, in its approximation by tanh
    plus_one: bool = False  # whether norms multiply by 1 + weight
    rotates_by_type: bool = False  # whether each type of layers has its own rotary embedding


_LLAMA = Kind((nn.SiLU, type(ACT2FN["silu"])), ("input_layernorm", "post_attention_layernorm"))
_GEMMA = Kind(
    (type(ACT2FN["gelu_pytorch_tanh"]),),
    (
        "input_layernorm",
        "pre_feedforward_layernorm",
        "post_attention_layernorm",
        "post_feedforward_layernorm",
    ),
    gelu=True,
    plus_one=True,
    rotates_by_type=True,
)
KINDS = {
    **dict.fromkeys(("LlamaModel", "MistralModel", "Qwen2Model", "Qwen3Model"), _LLAMA),
    "Gemma3TextModel": _GEMMA,
}


def fuse(model: PreTrainedModel) -> None:
    """Fuse the layers of ``model`` if they are of one shape and their linear layers are packed.

    A fused decoder runs as it was with another attention or cache, or with gradients.
    """
    for part in model.modules():
        kind = KINDS.get(type(part).__name__)
        if kind is None or "forward" in vars(part) or len(set(attention.layer_kinds(model))) > 1:
            continue
        if all(_can_fuse(layer, kind) for layer in part.layers):
            part.forward = FusedDecoder(part, kind).forward


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


def _norms(layer: Any, kind: Kind) -> list[Any]:  # noqa: ANN401 - a layer of any model
    """Return the norms in the order of ``_native.Decoder``, None for those there are not."""
    around = [getattr(layer, name) for name in kind.norms]
    heads = [getattr(layer.self_attn, name, None) for name in ("q_norm", "k_norm")]
    return [*around[:2], *heads, *(around[2:] or (None, None))]


def _epsilon(norm: Any) -> float:  # noqa: ANN401 - a norm of any model
    return float(norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps)


def _can_fuse(layer: Any, kind: Kind) -> bool:  # noqa: ANN401 - a layer of any model
    linears, heads = _linears(layer), layer.self_attn
    norms = [norm for norm in _norms(layer, kind) if norm is not None]
    return (
        all(type(linear) is packed.PackedLinear for linear in linears)
        and heads.head_dim <= attention.MAX_HEAD_DIM
        and getattr(heads, "is_causal", True)
        and getattr(heads, "attn_logit_softcapping", None) is None
        and isinstance(layer.mlp.act_fn, kind.activations)
        and {norm.weight.dtype for norm in norms} == {linears[0].dtype}
        and len(set(map(_epsilon, norms))) == 1
    )


class FusedDecoder:
    """The forward of a decoder. Its rows have the same bits in any company."""

    def __init__(self, decoder: Any, kind: Kind) -> None:  # noqa: ANN401 - a decoder of any model
        """Take the weights of ``decoder``, which stay where they are."""
        self.decoder = decoder
        self.plain: Callable[..., BaseModelOutputWithPast] = decoder.forward
        self.cache_argument = cache_argument(decoder)
        layers = list(decoder.layers)
        own = self.attention = layers[0].self_attn
        mistral = type(own).__name__ == "MistralAttention"  # one window for all layers
        windowed = [layer.self_attn.config if mistral else layer.self_attn for layer in layers]
        self.windows = [getattr(one, "sliding_window", None) for one in windowed]
        self.types = [getattr(layer.self_attn, "layer_type", None) for layer in layers]
        self.rotates_by_type = kind.rotates_by_type
        norms = [_norms(layer, kind) for layer in layers]
        self.weights = [[None if n is None else n.weight.detach() for n in each] for each in norms]
        self.native = _native.Decoder(
            [tuple(linear.matrix for linear in _linears(layer)) for layer in layers],
            [tuple(0 if w is None else w.data_ptr() for w in each) for each in self.weights],
            _epsilon(norms[0][0]),
            own.head_dim,
            own.scaling,
            kind.plus_one,
            kind.gelu,
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
        rotations = self._rotations(x, position_ids)
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
        tables = [rotations[layer_type] for layer_type in self.types]
        self.native.run(
            x.data_ptr(),
            sizes,
            [(cos.data_ptr(), sin.data_ptr()) for cos, sin in tables],
            tables[0][0].numel() // d,
            data.data_ptr(),  # all layers follow layer 0
            (data.shape[1], data.shape[3], cache.first, cache.length),
            [masks[window].data_ptr() if window in masks else 0 for window in self.windows],
            packed.thread_pool(),
        )
        return BaseModelOutputWithPast(self.decoder.norm(x), given_cache)

    def _rotations(
        self, x: torch.Tensor, position_ids: torch.Tensor
    ) -> dict[str | None, tuple[torch.Tensor, torch.Tensor]]:
        """Return cosines and sines (rows, d) for each type of layers."""
        rotate = self.decoder.rotary_emb
        if not self.rotates_by_type:
            cos, sin = rotate(x, position_ids)
            return dict.fromkeys(self.types, (cos.contiguous(), sin.contiguous()))
        rotations = {}
        for layer_type in set(self.types):
            cos, sin = rotate(x, position_ids, layer_type)
            rotations[layer_type] = cos.contiguous(), sin.contiguous()
        return rotations
