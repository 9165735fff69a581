"""Tiny random models and a tiny tokenizer, made in a folder of the test, without any network."""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from tasc.models import cost

cost._MOST_TURNS = cost._LEAST_TURNS  # else each bench times each of its models for two seconds
END = "<|endoftext|>"
ARCHITECTURES = ("qwen2", "llama", "mistral", "gemma")
WINDOW = {"sliding_window": 8}
# What each of these has of its own: windows, capped scores, sinks, experts, learned positions, …
OTHERS: dict[str, dict[str, Any]] = {
    "qwen3": {"head_dim": 16},
    "gemma2": {"head_dim": 16, **WINDOW},
    "gemma3_text": {"head_dim": 16, **WINDOW},
    "phi": {},
    "phi3": {},
    "cohere": {},
    "gpt2": {},
    "gpt_neox": {},
    "opt": {"word_embed_proj_dim": 64, "ffn_dim": 128},
    "olmo2": {},
    "starcoder2": WINDOW,
    "stablelm": {},
    "granite": {},
    "smollm3": {},
    "mixtral": {"num_local_experts": 4},
    "gpt_oss": {"head_dim": 16, "num_local_experts": 4, **WINDOW},
    # Larger heads in layers that see the whole text; the last two layers share keys.
    "gemma4_text": {
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "head_dim": 16,
        "global_head_dim": 32,
        "sliding_window": WINDOW["sliding_window"],
        "vocab_size_per_layer_input": 320,
        "hidden_size_per_layer_input": 16,
    },
    # Multi-head latent attention: values are narrower than keys.
    "deepseek_v2": {
        "num_key_value_heads": 4,
        "q_lora_rank": 32,
        "kv_lora_rank": 32,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 16,
        "v_head_dim": 16,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "moe_intermediate_size": 32,
        "first_k_dense_replace": 1,
    },
}
_MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_n_groups": 1}
_DELTA = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "head_dim": 16,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
# Layers with a convolution window, a recurrent state, or both, some beside attention.
HYBRIDS: dict[str, dict[str, Any]] = {
    "lfm2": {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], **_EXPERTS},
    "qwen3_5_text": _DELTA,
    "qwen3_next": {**_DELTA, **_EXPERTS, "shared_expert_intermediate_size": 32},
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention"],
        "shared_intermediate_size": 96,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        **_MAMBA,
    },
    "falcon_h1": {"mamba_d_ssm": 128, "head_dim": 16, **_MAMBA},
    "bamba": {"attn_layer_indices": [1], **_MAMBA},
    "nemotron_h": {
        "layers_block_type": ["linear_attention", "full_attention"],
        "mamba_num_heads": 8,
        "mamba_head_dim": 16,
        "ssm_state_size": 16,
        "n_groups": 1,
        "head_dim": 16,
    },
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 4},
    "mamba": {"state_size": 16, "time_step_rank": 8},
    "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 1},
    "recurrent_gemma": {
        "block_types": ["recurrent", "attention"],
        "lru_width": 64,
        "attention_window_size": 8,
        "head_dim": 16,
    },
    "minimax": {
        "layer_types": ["linear_attention", "full_attention"],
        "num_local_experts": 4,
        "head_dim": 16,
    },
}
TEXTS = (
    "wake me up at nine\nintent: alarm_set, slot fills: {time: nine}",
    "play some jazz music\nintent: play_music, slot fills: {genre: jazz}",
    "is it going to rain today\nintent: weather_query, slot fills: {date: today}",
    "turn the lights off\nintent: lights_off, slot fills: {}",
    "remind me to call my mother tomorrow\nintent: calendar_set, slot fills: {date: tomorrow}",
)
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def make_tokenizer(folder: Path, texts: Iterable[str] = TEXTS, size: int = 320) -> Path:
    """Save a byte-level BPE tokenizer with Qwen2's pattern; its end token has id 0."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def restate(file: Path, **changes: Any) -> None:
    """Change fields of a JSON file, such as a model's configuration."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def make_model(
    folder: Path, architecture: str = "qwen2", *, dtype: torch.dtype = torch.float32, **shape: Any
) -> Path:
    """Save a random model of a shape as of ``build_model`` and return its folder."""
    build_model(architecture, **shape).to(dtype).save_pretrained(folder)
    return folder


def build_model(
    architecture: str = "qwen2",
    *,
    vocabulary: int = 320,
    tied: bool = True,
    hidden: int = 64,
    layers: int = 2,
    seed: int = 0,
    **own: Any,
) -> PreTrainedModel:
    """Return a random model, in evaluation mode: 4 heads, 2 of keys and values.

    ``own`` are fields that only the configuration of this architecture has.
    """
    sizes: dict[str, Any] = (
        {"head_dim": hidden // 4} if architecture in ("gemma", "mistral") else {}
    )
    sizes |= OTHERS.get(architecture, {}) | HYBRIDS.get(architecture, {})
    config = AutoConfig.for_model(
        architecture,
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_attention_heads=4,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        initializer_range=0.3,  # large, so that arg-maxes are far apart
        **{"num_hidden_layers": layers, "num_key_value_heads": 2} | sizes | own,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    if getattr(config, "attn_logit_softcapping", None) is not None:
        model.set_attn_implementation("eager")  # transformers before 5.21 takes sdpa, without a cap
    return model.eval()


def build_bigram(logits: np.ndarray) -> PreTrainedModel:
    """Return a Qwen2 whose logits after token i are row i of ``logits`` (V, V), nearly.

    The tokens before move them by a few hundredths of the largest, so what it writes is known as
    long as the largest is well above the others, and a wrong cache still changes the logits.
    """
    hidden = -(-len(logits) // 8) * 8  # each token has a dimension of its own
    model = build_model(vocabulary=len(logits), tied=False, hidden=hidden, layers=1)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight *= 1e-3
            layer.mlp.down_proj.weight *= 1e-4
        embedding, lm_head = model.model.embed_tokens.weight, model.lm_head.weight
        embedding.copy_(hidden**0.5 * torch.eye(len(logits), hidden))
        lm_head.zero_()[:, : len(logits)] = torch.from_numpy(logits.T.copy()) / hidden**0.5
    return model


def bigrams(
    sequences: Iterable[Iterable[int]], vocabulary: int = 320, sure: float = 20.0
) -> np.ndarray:
    """Return logits (V, V) by which each token of the sequences is followed by the next one.

    ``sure`` is their logit, the others are drawn from N(0, 1). Raises ValueError where a token has
    two successors.
    """
    logits = np.random.default_rng(0).normal(0, 1, (vocabulary, vocabulary)).astype(np.float32)
    after: dict[int, int] = {}
    for token, successor in (pair for sequence in sequences for pair in pairwise(sequence)):
        if after.setdefault(token, successor) != successor:
            raise ValueError(f"token {token} is followed by {after[token]} and {successor}")
        logits[token, successor] = sure
    return logits


def continued(
    model: PreTrainedModel, prompt: np.ndarray, new_tokens: int, **options: Any
) -> np.ndarray:
    """Return the tokens, (L,) int32, that transformers generates greedily after ``prompt``."""
    ids = torch.from_numpy(prompt.astype(np.int64))[None]
    out = model.generate(ids, max_new_tokens=new_tokens, do_sample=False, pad_token_id=0, **options)
    return out[0, len(prompt) :].numpy().astype(np.int32)


def make_base(folder: Path, architecture: str = "qwen2", **shape: object) -> Path:
    """Save a model and its tokenizer in one folder, as a checkpoint is published."""
    make_tokenizer(folder)
    return make_model(folder, architecture, **shape)  # type: ignore[arg-type]


def build_windowed() -> PreTrainedModel:
    """Return a Mistral whose layers see the last 6 positions."""
    return build_model("mistral", vocabulary=64, hidden=32, sliding_window=6)
