"""EAGLE's draft head: one transformer layer over a hidden state of the target and the next token.

Li et al., "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty" (2024), section
4.1: at position i the head reads the target's last hidden state and the embedding of token i + 1,
and predicts the hidden state at i + 1. Embedding and LM head are the target's. Weight names follow
the published EAGLE-1 and EAGLE-2 checkpoints, whose layer has no norm before its attention.
"""

import json
from math import gcd
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import LlamaConfig, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from tasc.data.foreign import one_line
from tasc.errors import InputError, IntegrityError, TascError
from tasc.files.disk import writing
from tasc.models import attention
from tasc.models.cache import cache_argument
from tasc.models.folder import head_files
from tasc.models.folder.files import CONFIG, WEIGHTS
from tasc.models.folder.quiet import quiet

_ATTENTION = "layers.0.self_attn"
_SHARED = ("embed_tokens.", "lm_head.")  # the target's; some checkpoints contain copies


class DraftHead(nn.Module):
    """The trained part: ``fc`` from (embedding, hidden state) to one state, and the layer."""

    def __init__(
        self, config: LlamaConfig, *, fc_bias: bool = True, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        config._attn_implementation = attention.register()
        d = config.hidden_size
        self.config, self.qkv_bias = config, qkv_bias
        self.fc = nn.Linear(2 * d, d, bias=fc_bias)
        layer = LlamaDecoderLayer(config, 0)
        layer.input_layernorm = nn.Identity()
        if qkv_bias:
            for name in ("q_proj", "k_proj", "v_proj"):
                rows = getattr(layer.self_attn, name).out_features
                setattr(layer.self_attn, name, nn.Linear(d, rows, bias=True))
        self.layers = nn.ModuleList([layer])
        self.cache_argument = cache_argument(layer)
        self.rotary = LlamaRotaryEmbedding(config)

    def forward(
        self,
        embedded: Tensor,
        hidden: Tensor,
        positions: Tensor,
        mask: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Return the states (B, q, d) that follow ``hidden`` (B, q, d) and ``embedded`` (B, q, d).

        ``embedded`` are the embeddings of the tokens after those of ``hidden``; ``positions``
        (B, q) int64; ``mask`` as in ``attention.attend``. Keys and values go to ``cache``.
        """
        states = self.fc(torch.cat((embedded.to(hidden.dtype), hidden), dim=-1))
        out: Tensor = self.layers[0](
            states,
            attention_mask=mask,
            position_ids=positions,
            position_embeddings=self.rotary(states, positions),
            **{self.cache_argument: cache},
        )
        return out

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors under EAGLE's names."""
        config = self.config.to_diff_dict() | {
            "architectures": ["LlamaForCausalLM"],
            "num_hidden_layers": 1,
            "bias": self.fc.bias is not None,
            "qkv_bias": self.qkv_bias,
        }
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(config, indent=2, sort_keys=True)
        (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
        weights = {n: t.detach().cpu().contiguous() for n, t in self.state_dict().items()}
        with writing(folder / WEIGHTS, sum(t.nbytes for t in weights.values())):
            save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


def new_head(model: PreTrainedModel, seed: int = 0) -> DraftHead:
    """Return an untrained head with the sizes, device and dtype of ``model``."""
    c = model.config.get_text_config()
    rope = getattr(c, "rope_parameters", None) or {}
    wide = getattr(c, "intermediate_size", None) or 4 * c.hidden_size
    theta = float(rope.get("rope_theta") or getattr(c, "rope_theta", None) or 10000.0)
    rows, d = model.get_input_embeddings().weight.shape
    heads = gcd(d, c.num_attention_heads)  # LlamaConfig wants a divisor of d
    config = LlamaConfig(
        vocab_size=rows,
        hidden_size=d,
        intermediate_size=max(wide) if isinstance(wide, list | tuple) else wide,
        num_hidden_layers=1,
        num_attention_heads=heads,
        num_key_value_heads=gcd(heads, vars(c).get("num_key_value_heads") or heads),
        head_dim=vars(c).get("head_dim"),
        max_position_embeddings=getattr(c, "max_position_embeddings", None) or 4096,
        rms_norm_eps=getattr(c, "rms_norm_eps", 1e-6),
        rope_parameters={"rope_type": "default", "rope_theta": theta},
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = DraftHead(config)
    return head.to(model.device, model.dtype).eval()


def load_head(path: Path | str, model: PreTrainedModel) -> DraftHead:
    """Load the head in ``path`` for ``model``: one of ours, or a published EAGLE-1/2 checkpoint.

    Raises InputError if there is no head in safetensors, or it belongs to another model, and
    IntegrityError if its weights are damaged.
    """
    folder = head_files.find(path)
    values, weights = head_files.read(folder)
    if "fc.weight" not in weights:
        raise InputError(
            f"draft head {folder} holds no EAGLE head: give the folder that tasc finetune "
            "--draft-head writes, or train one with it"
        )
    rows, d = model.get_input_embeddings().weight.shape
    width = model.get_output_embeddings().weight.shape[1]
    head_files.check(folder, values, d, rows)
    if d != width:
        raise InputError(
            f"the model has embeddings of size {d} and an LM head of size {width}, but draft head "
            f"{folder} needs one size for both: use a method without a head, such as tasc-spec"
        )
    config = {key: value for key, value in values.items() if key in _CONFIG_KEYS}
    weights = {n: t for n, t in weights.items() if not n.startswith(_SHARED)}
    try:
        with quiet():
            head = _built(folder, config, weights).to(model.device, model.dtype).eval()
            _try(folder, head, model)
    except TascError:
        raise
    except Exception as error:
        raise InputError(
            f"draft head {folder} cannot be built: {type(error).__name__}: {one_line(error)}: "
            "fetch or train it again"
        ) from error
    return head


def _built(folder: Path, values: dict[str, Any], weights: dict[str, Tensor]) -> DraftHead:
    """Build a head; compare the sizes of an untrusted config before allocating them."""
    config = LlamaConfig(**values)
    fc_bias, qkv_bias = "fc.bias" in weights, f"{_ATTENTION}.q_proj.bias" in weights
    for device in ("meta", "cpu"):
        with torch.device(device):
            head = DraftHead(config, fc_bias=fc_bias, qkv_bias=qkv_bias)
        try:
            head.load_state_dict(weights)
        except RuntimeError as error:
            raise InputError(
                f"draft head {folder}: not the weights of an EAGLE-1 or EAGLE-2 head: "
                f"{one_line(error)}: fetch or train it again"
            ) from error
    return head


# The keys of a published config.json that describe the layer.
_CONFIG_KEYS = {
    *("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "head_dim"),
    *("num_key_value_heads", "hidden_act", "max_position_embeddings", "rms_norm_eps"),
    *("rope_theta", "rope_scaling", "rope_parameters", "attention_bias", "mlp_bias"),
}


@torch.inference_mode()
def _try(folder: Path, head: DraftHead, model: PreTrainedModel) -> None:
    """Run the head on two positions, to find errors before decoding."""
    states = torch.ones((1, 2, head.config.hidden_size), device=model.device, dtype=model.dtype)
    if head(states, states, torch.arange(2, device=model.device)[None]).isnan().any():
        raise IntegrityError(
            f"draft head {folder} computes NaN, so its weights are damaged: fetch or train it again"
        )
