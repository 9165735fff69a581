"""The architectures of GGUF files that tasc reads: tensors, settings and what llama.cpp assumes.

A GGUF file names llama.cpp's architecture, and lacks what llama.cpp has in its code, such as the
layers of Gemma 3 that see the whole text. Each architecture here gives both in transformers' terms.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tasc.errors import InputError
from tasc.files.gguf_header import ADVICE, GgufHeader
from tasc.models.folder.gguf_tensors import USE_FOLDER, tensor_values

_T = TypeVar("_T")
_ATTENTION = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
_LLAMA = _ATTENTION | {
    "attn_norm": "input_layernorm",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Norms before and after attention, and before and after the multi-layer perceptron.
_GEMMA = _LLAMA | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_PHI3 = _LLAMA | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}
_STARCODER2 = _LLAMA | {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
_LFM2 = _ATTENTION | {
    "attn_output": "self_attn.out_proj",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "attn_norm": "operator_norm",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
    "shortconv.conv": "conv.conv",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.out_proj": "conv.out_proj",
}
_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LFM2_WHOLE = {
    "token_embd": "model.embed_tokens",
    "token_embd_norm": "model.embedding_norm",
    "output_norm": "model.embedding_norm",
    "output": "lm_head",
}
_GELU = "gelu_pytorch_tanh"
_DEFAULT_THETA = 10_000.0
ROPE_FACTORS = "rope_freqs.weight"
_LONG, _SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
_LLAMA3_POSITIONS = 8192  # that Llama 3 was trained on first


@dataclass(frozen=True)
class Fields:
    """The settings of a file that begin with the name of its architecture."""

    header: GgufHeader
    kind: str

    def get(self, name: str, kind: type[_T], default: _T | None = None) -> _T:
        """Return a setting. Raises InputError as ``GgufHeader.get`` does."""
        return self.header.get(f"{self.kind}.{name}", kind, default)

    def size(self, name: str, default: int | None = None) -> int:
        """Return a setting that is at least 1. Raises InputError."""
        size = self.get(name, int, default)
        if size < 1:
            raise InputError(
                f"{self.header.path}: {self.kind}.{name} is {size}, but must be at least 1: "
                f"{ADVICE}"
            )
        return size

    def has(self, name: str) -> bool:
        return f"{self.kind}.{name}" in self.header.fields

    def float_or_none(self, name: str) -> float | None:
        return self.get(name, float) if self.has(name) else None

    @property
    def layers(self) -> int:
        """The number of layers, each of which has a tensor or more. Raises InputError."""
        layers, tensors = self.size("block_count"), len(self.header.tensors)
        if layers > tensors:
            raise InputError(
                f"{self.header.path}: {self.kind}.block_count is {layers:,}, but there are "
                f"{tensors:,} tensors: {ADVICE}"
            )
        return layers

    @property
    def width_per_head(self) -> int:
        return self.size("embedding_length") // self.size("attention.head_count")

    @property
    def head_dim(self) -> int:
        return self.size("attention.key_length", self.width_per_head)

    @property
    def key_value_heads(self) -> list[int]:
        """The heads of keys and values in each layer; none in a layer without attention."""
        name = "attention.head_count_kv"
        heads = self.header.fields.get(f"{self.kind}.{name}")
        if not isinstance(heads, list):
            return [self.size(name, self.size("attention.head_count"))] * self.layers
        if len(heads) != self.layers or not all(type(n) is int and n >= 0 for n in heads):
            raise InputError(
                f"{self.header.path}: {self.kind}.{name} is not a list of {self.layers} numbers: "
                f"{ADVICE}"
            )
        return heads

    def rope(self) -> dict[str, Any]:
        """Return the rotary positions: plain, of a scaled length, or Llama 3's.

        Raises InputError for factors that are not Llama 3's.
        """
        theta = self.get("rope.freq_base", float, _DEFAULT_THETA)
        plain = {"rope_type": "default", "rope_theta": theta}
        if self.get("rope.scaling.type", str, "none") == "linear":
            return plain | {"rope_type": "linear", "factor": self.get("rope.scaling.factor", float)}
        if ROPE_FACTORS not in self.header.tensors:
            return plain
        factors = tensor_values(self.header, ROPE_FACTORS)
        factor = float(factors.max())
        fits = factors.shape == (-(-self.head_dim // 2),)  # before a false size takes memory
        if not fits or not np.allclose(
            factors, llama3_factors(theta, self.head_dim, factor), rtol=1e-3
        ):
            raise InputError(
                f"{self.header.path} has factors of rotary positions that are not Llama 3's: "
                f"{USE_FOLDER}"
            )
        scaled = {"rope_type": "llama3", "factor": factor} | _LLAMA3
        return plain | scaled | {"original_max_position_embeddings": _LLAMA3_POSITIONS}


def llama3_factors(theta: float, size: int, factor: float) -> np.ndarray:
    """Return the divisors (size / 2,) of the frequencies, as Llama 3.1 defines them."""
    turns = _LLAMA3_POSITIONS / (2 * np.pi) * theta ** -(np.arange(0, size, 2) / size)
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return np.asarray(1 / ((1 - smooth) / factor + smooth))


def _llama(fields: Fields) -> dict[str, Any]:
    return {"hidden_act": "silu", "rope_parameters": fields.rope()}


def _gemma(fields: Fields) -> dict[str, Any]:
    return {"hidden_act": _GELU, "hidden_activation": _GELU, "rope_parameters": fields.rope()}


def _gemma2(fields: Fields) -> dict[str, Any]:
    """Every second layer sees a window, the first one among them."""
    return _gemma(fields) | {
        "attn_logit_softcapping": fields.get("attn_logit_softcapping", float, 50.0),
        "final_logit_softcapping": fields.get("final_logit_softcapping", float, 30.0),
        **assumed_of_gemma("gemma2", fields.layers, fields.width_per_head, fields.head_dim),
        "sliding_window": fields.size("attention.sliding_window", 4096),
    }


def _gemma3(fields: Fields) -> dict[str, Any]:
    """Every sixth layer sees the whole text, with rotary positions of its own."""
    sizes = fields.layers, fields.width_per_head, fields.head_dim
    assumed = assumed_of_gemma("gemma3_text", *sizes)
    if not fields.has("attention.sliding_window"):
        assumed["layer_types"] = ["full_attention"] * fields.layers
    elif fields.has("attention.sliding_window_pattern"):
        every = fields.size("attention.sliding_window_pattern")
        assumed["layer_types"] = _windows(fields.layers, every)
    local = fields.get("rope.freq_base_swa", float, _DEFAULT_THETA)
    return {
        "hidden_activation": _GELU,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": local},
            "full_attention": fields.rope(),
        },
        "attn_logit_softcapping": None,
        "final_logit_softcapping": fields.float_or_none("final_logit_softcapping"),
        "sliding_window": fields.size("attention.sliding_window", 4096),
        **assumed,
    }


def assumed_of_gemma(
    model_type: str, layers: int, width_per_head: int, head_dim: int
) -> dict[str, Any]:
    """Return what llama.cpp has in its code for Gemma 2 and 3, whatever config.json says.

    Attention scores are divided by the square root of ``query_pre_attn_scalar``, which is another
    one in the largest model.
    """
    largest, every = {"gemma2": (46, 2), "gemma3_text": (62, 6)}[model_type]
    return {
        "query_pre_attn_scalar": width_per_head if layers == largest else head_dim,
        "layer_types": _windows(layers, every),
    }


def _windows(layers: int, every: int) -> list[str]:
    return ["sliding_attention" if i % every else "full_attention" for i in range(1, layers + 1)]


def _granite(fields: Fields) -> dict[str, Any]:
    return _llama(fields) | {
        "attention_multiplier": fields.get("attention.scale", float, fields.head_dim**-0.5),
        "embedding_multiplier": fields.get("embedding_scale", float, 1.0),
        "residual_multiplier": fields.get("residual_scale", float, 1.0),
        "logits_scaling": fields.get("logit_scale", float, 1.0),
    }


def _phi3(fields: Fields) -> dict[str, Any]:
    """Some of each head is rotated; long texts have factors of their own."""
    context = fields.size("context_length")
    original = fields.size("rope.scaling.original_context_length", context)
    rope = {
        "rope_type": "default",
        "rope_theta": fields.get("rope.freq_base", float, _DEFAULT_THETA),
        "partial_rotary_factor": fields.size("rope.dimension_count", fields.head_dim)
        / fields.head_dim,
    }
    if {_LONG, _SHORT} <= fields.header.tensors.keys():
        rope |= {
            "rope_type": "longrope",
            "long_factor": tensor_values(fields.header, _LONG).tolist(),
            "short_factor": tensor_values(fields.header, _SHORT).tolist(),
            "original_max_position_embeddings": original,
        }
        if fields.has("rope.scaling.attn_factor"):
            rope["attention_factor"] = fields.get("rope.scaling.attn_factor", float)
    return {
        "hidden_act": "silu",
        "original_max_position_embeddings": original,
        "rope_parameters": rope,
        "sliding_window": fields.get("attention.sliding_window", int, 0) or None,
    }


def _smollm3(fields: Fields) -> dict[str, Any]:
    """Every fourth layer has no positions."""
    return _llama(fields) | {
        "no_rope_layers": [int((i + 1) % 4 != 0) for i in range(fields.layers)],
        "layer_types": ["full_attention"] * fields.layers,
        "use_sliding_window": False,
    }


def _starcoder2(fields: Fields) -> dict[str, Any]:
    """llama.cpp has no window for these models, and files do not name one."""
    return {
        "hidden_act": _GELU,
        "norm_epsilon": fields.get("attention.layer_norm_epsilon", float),
        "rope_parameters": fields.rope(),
        "sliding_window": None,
        "use_bias": "blk.0.attn_q.bias" in fields.header.tensors,
    }


def _lfm2(fields: Fields) -> dict[str, Any]:
    return {
        "block_auto_adjust_ff_dim": False,
        "conv_bias": False,
        "conv_L_cache": fields.size("shortconv.l_cache"),
        "norm_eps": fields.get("attention.layer_norm_rms_epsilon", float),
        "layer_types": ["full_attention" if n else "conv" for n in fields.key_value_heads],
        "rope_parameters": fields.rope(),
    }


@dataclass(frozen=True)
class Architecture:
    """How llama.cpp stores a kind of model of transformers."""

    model_type: str
    model_class: str
    settings: Callable[[Fields], dict[str, Any]]  # of config.json, beside the sizes
    layer: Mapping[str, str] = field(default_factory=lambda: _LLAMA)  # parts of a layer
    whole: Mapping[str, str] = field(default_factory=lambda: _WHOLE)  # parts of the model
    paired: bool = False  # queries and keys are reordered for rotary positions in pairs
    norms_plus_one: bool = False  # norms of weight 1 + w are stored as 1 + w
    rope_types: frozenset[str] = frozenset({"none", "linear"})  # as files name them
    partial_rope: bool = False  # a part of each head may be rotated


# By llama.cpp's names.
ARCHITECTURES = {
    "llama": Architecture("llama", "LlamaForCausalLM", _llama, paired=True),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM", _llama),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM", _llama),
    "gemma": Architecture("gemma", "GemmaForCausalLM", _gemma, norms_plus_one=True),
    "gemma2": Architecture("gemma2", "Gemma2ForCausalLM", _gemma2, _GEMMA, norms_plus_one=True),
    "gemma3": Architecture(
        "gemma3_text", "Gemma3ForCausalLM", _gemma3, _GEMMA, norms_plus_one=True
    ),
    "granite": Architecture("granite", "GraniteForCausalLM", _granite, paired=True),
    "lfm2": Architecture("lfm2", "Lfm2ForCausalLM", _lfm2, _LFM2, _LFM2_WHOLE),
    "phi3": Architecture(
        "phi3",
        "Phi3ForCausalLM",
        _phi3,
        _PHI3,
        rope_types=frozenset({"none", "longrope"}),
        partial_rope=True,
    ),
    "smollm3": Architecture("smollm3", "SmolLM3ForCausalLM", _smollm3, paired=True),
    "starcoder2": Architecture("starcoder2", "Starcoder2ForCausalLM", _starcoder2, _STARCODER2),
}
FACTORS = frozenset({ROPE_FACTORS, _LONG, _SHORT})  # tensors that become settings
