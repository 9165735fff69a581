"""Models that a tree can be decoded with in part only, or not at all."""

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tasc.errors import InputError, UnavailableError
from tasc.models.target import Target

SHAPE = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 0,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}


def build(kind, **options):
    config = AutoConfig.for_model(kind, **SHAPE | options)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return AutoModelForCausalLM.from_config(config).eval()


def test_a_model_whose_attention_cannot_be_replaced_is_refused():
    with pytest.raises(UnavailableError, match="decode it with transformers"):
        Target(build("gptj", **GPT2, rotary_dim=8))


@pytest.mark.parametrize("kind", ["mamba", "lfm2"])
def test_a_model_with_stateful_layers_is_no_target_of_trees(kind):
    layers = {"layer_types": ["conv", "full_attention"]} if kind == "lfm2" else {}
    with pytest.raises(UnavailableError, match="attention in all layers"):
        Target(build(kind, **layers))


def test_chunked_attention_is_used_within_one_chunk_only():
    experts = {"num_local_experts": 2, "intermediate_size_mlp": 128, "head_dim": 16}
    target = Target(build("llama4_text", attention_chunk_size=32, **experts))
    target.prefill(np.ones(20, np.int32), 12)
    with pytest.raises(InputError, match="32 positions"):
        target.prefill(np.ones(21, np.int32), 12)
