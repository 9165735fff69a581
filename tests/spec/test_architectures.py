"""Models of many kinds, as transformers ships them, under trees: no file of theirs is forked."""

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tasc.errors import InputError, UnavailableError
from tasc.models.borrow import borrowed
from tasc.models.target import Target
from tasc.spec.decode import generate
from tasc.spec.drafters import Resources, parse

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
WINDOW = {"sliding_window": 8}
KINDS = {  # what each has of its own: windows, capped scores, sinks, learned positions, …
    "qwen3": {"head_dim": 16},
    "gemma2": {"head_dim": 16, **WINDOW},
    "gemma3_text": {"head_dim": 16, **WINDOW},
    "phi3": {},
    "olmo2": {},
    "smollm3": {},
    "phi": {},
    "gpt_neox": {},
    "gpt2": GPT2,
    "opt": {},
    "granite": {},
    "cohere": {},
    "starcoder2": WINDOW,
    "stablelm": {},
    "gpt_oss": {"head_dim": 16, "num_local_experts": 4, **WINDOW},
}
NEW_TOKENS = 40


def build(kind, **options):
    config = AutoConfig.for_model(kind, **SHAPE | options)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_output_equals_transformers_generate(kind):
    model = build(kind, **KINDS[kind])
    prompt = np.random.default_rng(0).integers(1, 320, 20).astype(np.int32)
    ids = torch.from_numpy(prompt.astype(np.int64))[None]
    limits = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS}
    expected = model.generate(ids, do_sample=False, **limits)[0, 20:].numpy().astype(np.int32)
    misleading = np.random.default_rng(1).permutation(expected)
    # min_new_tokens forbids the end token; a processor does the same to ours.
    no_end = lambda _ids, scores: scores.index_fill(1, torch.tensor([0]), -torch.inf)  # noqa: E731
    for method in (parse("tasc-spec:p_min=1"), parse("tasc-spec:p_min=1,width=1,budget=7")):
        factory = method.prepare(Resources([expected, misleading], 0))
        with borrowed(model) as target:
            done = generate(
                target,
                factory(),
                prompt,
                max_new_tokens=NEW_TOKENS,
                budget=method.budget,
                processors=[no_end],
            )
        assert done.tokens.tolist() == expected.tolist()
        assert sum(done.accepted) > 0


REFUSED = {
    "mamba": {},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "gptj": {**GPT2, "rotary_dim": 8},  # its attention is its own
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_model_that_no_tree_can_be_decoded_with_is_refused(kind):
    with pytest.raises(UnavailableError, match="decode it with transformers"):
        Target(build(kind, **REFUSED[kind]))


def test_chunked_attention_is_used_within_one_chunk_only():
    experts = {"num_local_experts": 2, "intermediate_size_mlp": 128, "head_dim": 16}
    target = Target(build("llama4_text", attention_chunk_size=32, **experts))
    target.prefill(np.ones(20, np.int32), 12)
    with pytest.raises(InputError, match="32 positions"):
        target.prefill(np.ones(21, np.int32), 12)
