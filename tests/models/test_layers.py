"""Fused decoder layers compute what the layers of transformers do."""

import copy

import numpy as np
import pytest
import torch

from tasc.models.packed import DTYPES, can_pack, pack
from tasc.models.target import Target
from tests.pico import build_model

pytestmark = pytest.mark.skipif(not can_pack(), reason="layers stay as they are")
NODES = np.array([3, 4, 5], np.int32), np.array([-1, 0, 0], np.int32)


def logits(model):
    target = Target(model)
    target.begin(60, 2)
    prompts = [np.arange(1, size, dtype=np.int32) for size in (30, 12)]
    return [target.join(prompts), target.score([7, 8], [NODES, NODES])]


def fused(model):
    return [layer for layer in model.modules() if "forward" in vars(layer)]


def plain_logits(model, monkeypatch):
    for layer in fused(model):
        monkeypatch.setattr(layer, "forward", layer.forward.__self__.plain)
    return logits(model)


@pytest.mark.parametrize("architecture", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_fused_layer_computes_what_the_plain_one_does(architecture, monkeypatch):
    weights = build_model(architecture).bfloat16()
    models = {dtype: copy.deepcopy(weights).to(dtype) for dtype in DTYPES}
    for model in models.values():
        if architecture == "mistral":
            model.config.sliding_window = 8
        pack(model)
    ours = {dtype: logits(model) for dtype, model in models.items()}
    assert all(len(fused(m)) == m.config.num_hidden_layers for m in models.values())
    plain = {dtype: plain_logits(model, monkeypatch) for dtype, model in models.items()}
    exact = plain[torch.float32]
    torch.testing.assert_close(ours[torch.float32], exact, atol=1e-4, rtol=1e-4)
    error, allowed = (
        sum((a.float() - b).norm() for a, b in zip(x[torch.bfloat16], exact, strict=True))
        for x in (ours, plain)
    )
    assert error < 1.5 * allowed


def test_other_layers_and_other_attentions_stay_plain():
    gemma = build_model("gemma")
    pack(gemma)
    assert not fused(Target(gemma).model)
    plain = build_model("llama")
    model = copy.deepcopy(plain)
    pack(model)
    target, ids = Target(model), torch.arange(9)[None]
    with target.untouched(), torch.inference_mode():
        torch.testing.assert_close(model(ids).logits, plain(ids).logits, atol=1e-5, rtol=1e-4)
    with torch.enable_grad():
        torch.testing.assert_close(model(ids).logits, plain(ids).logits, atol=1e-5, rtol=1e-4)


def test_a_fused_layer_in_8_bits_computes_what_its_linear_layers_do(monkeypatch):
    for dtype in DTYPES:
        model = build_model("llama").to(dtype)
        pack(model, int8=True)
        ours = logits(model)
        assert len(fused(model)) == model.config.num_hidden_layers
        tolerance = 1e-5 if dtype == torch.float32 else 0.03
        for found, expected in zip(ours, plain_logits(model, monkeypatch), strict=True):
            assert (found - expected).float().norm() < tolerance * expected.float().norm()
