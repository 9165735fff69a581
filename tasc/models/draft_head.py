"""The draft head of EAGLE: one transformer layer over a target's hidden state and the next token.

Li et al., "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty" (2024), section
4.1: at position i the head reads the target's last hidden state there and the embedding of token
i + 1, and predicts the hidden state at i + 1, from which the target's own LM head makes logits.
Embedding and LM head are the target's. The names of the weights are those of the checkpoints that
EAGLE-1 and EAGLE-2 publish; their layer has no norm in front of its attention.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from tasc.errors import InputError
from tasc.models import attention
from tasc.models.folder import head_files

_ATTENTION = "layers.0.self_attn"
_SHARED = ("embed_tokens.", "lm_head.")  # the target's, frozen: some checkpoints hold copies


class DraftHead(nn.Module):
    """The trained part: ``fc`` from (embedding, hidden state) to one state, and the layer."""

    def __init__(
        self, config: LlamaConfig, *, fc_bias: bool = True, qkv_bias: bool = False
    ) -> None:
        """Make a head with random weights, of ``config``'s sizes."""
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
            past_key_values=cache,
            position_embeddings=self.rotary(states, positions),
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
        head_files.write(folder, config, self.state_dict())


def new_head(model: PreTrainedModel, seed: int = 0) -> DraftHead:
    """Return an untrained head of the sizes of ``model``, on its device and in its dtype."""
    c = model.config.get_text_config()
    config = LlamaConfig(
        vocab_size=model.get_input_embeddings().weight.shape[0],
        hidden_size=c.hidden_size,
        intermediate_size=getattr(c, "intermediate_size", None) or 4 * c.hidden_size,
        num_hidden_layers=1,
        num_attention_heads=c.num_attention_heads,
        num_key_value_heads=getattr(c, "num_key_value_heads", None) or c.num_attention_heads,
        max_position_embeddings=getattr(c, "max_position_embeddings", None) or 4096,
        rms_norm_eps=getattr(c, "rms_norm_eps", 1e-6),
        rope_parameters={"rope_type": "default", "rope_theta": _rope_theta(c)},
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = DraftHead(config)
    return head.to(model.device, model.dtype).eval()


def load_head(path: Path, model: PreTrainedModel) -> DraftHead:
    """Load the head in ``path`` for ``model``: one of ours, or a published EAGLE-1/2 checkpoint.

    Raises InputError where there is none in safetensors, or it is of another target.
    """
    folder = head_files.find(path)
    values, weights = head_files.read(folder)
    if "fc.weight" not in weights:
        raise InputError(
            f"draft head {folder} holds no EAGLE head: give the folder that tasc finetune "
            "--draft-head writes, or train one with it"
        )
    weights = {n: t for n, t in weights.items() if not n.startswith(_SHARED)}
    fc_bias, qkv_bias = "fc.bias" in weights, f"{_ATTENTION}.q_proj.bias" in weights
    with head_files.building(folder):
        config = LlamaConfig(**{k: v for k, v in values.items() if k in _STATED})
        head_files.check(folder, config.hidden_size, config.vocab_size, model)
        with torch.device("meta"):  # sizes of a stranger's config are compared before they cost
            skeleton = DraftHead(config, fc_bias=fc_bias, qkv_bias=qkv_bias)
        head_files.fill(folder, skeleton, weights, "an EAGLE-1 or EAGLE-2 head")
        head = DraftHead(config, fc_bias=fc_bias, qkv_bias=qkv_bias)
        head_files.fill(folder, head, weights, "an EAGLE-1 or EAGLE-2 head")
        head = head.to(model.device, model.dtype).eval()
        _try(folder, head, model)
    return head


# What a published config.json says of the layer; the rest is of no use here.
_STATED = {
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "attention_bias",
    "mlp_bias",
}


@torch.inference_mode()
def _try(folder: Path, head: DraftHead, model: PreTrainedModel) -> None:
    """Let the head read two positions: whatever is wrong with it shows here."""
    states = torch.ones((1, 2, head.config.hidden_size), device=model.device, dtype=model.dtype)
    head_files.check_numbers(
        folder, head(states, states, torch.arange(2, device=model.device)[None])
    )


def _rope_theta(config: PreTrainedConfig) -> float:
    stated = getattr(config, "rope_parameters", None) or {}
    return float(stated.get("rope_theta") or getattr(config, "rope_theta", None) or 10000.0)
