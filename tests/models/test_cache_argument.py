"""A cache is passed under the name that a model takes it by, in every release of transformers."""

import numpy as np
import pytest
import torch
from torch import nn

from tasc.errors import UnavailableError
from tasc.models.cache import ARGUMENTS, cache_among, cache_argument
from tasc.models.packed import pack
from tasc.models.target import Target
from tests.models.test_packed import needs_packing
from tests.pico import build_model

PROMPT = np.arange(3, 12, dtype=np.int32)


class Old(nn.Module):
    def forward(self, input_ids, past_key_values=None):
        return past_key_values


class StateSpace(nn.Module):
    def forward(self, input_ids, cache_params=None):
        return cache_params


class New(nn.Module):
    def forward(self, input_ids, cache=None):
        return cache


class Wrapper(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, *args, **kwargs):
        return self.inside(*args, **kwargs)


@pytest.mark.parametrize("kind", [Old, StateSpace, New])
@pytest.mark.parametrize("wraps", [0, 1, 2])
def test_the_name_is_the_one_in_the_signature_also_below_a_wrapper(kind, wraps):
    model = kind()
    for _ in range(wraps):
        model = Wrapper(model)
    assert model(1, **{cache_argument(model): "given"}) == "given"


def test_a_model_without_a_cache_is_refused():
    with pytest.raises(UnavailableError, match="takes no cache under a known name"):
        cache_argument(nn.Linear(2, 2))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_cache_is_found_among_inputs_by_any_name(name):
    assert cache_among({"attention_mask": 1, name: 2}) == (name, 2)
    assert cache_among({"attention_mask": 1, name: None}) is None


@needs_packing
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_fused_decoder_runs_as_its_own_where_it_is_called_in_another_way(kind):
    """By position, from embeddings, without positions, and with a cache of transformers."""
    model = build_model(kind)
    pack(model)
    ids = torch.from_numpy(PROMPT.astype(np.int64))[None]
    at = torch.arange(ids.shape[1])[None]
    with torch.inference_mode():
        own = model.model(input_ids=ids, position_ids=at).last_hidden_state
        target = Target(model)
        assert "forward" in vars(model.model), "its layers run in one native call"
        target.prefill(PROMPT, 1)
        calls = (
            model.model(ids, None, at),
            model.model(ids, None, at, None),
            model.model(input_ids=ids),
            model.model(inputs_embeds=model.model.embed_tokens(ids), position_ids=at),
            model.model(input_ids=ids, position_ids=at, use_cache=True),
        )
    for out in calls:
        torch.testing.assert_close(out.last_hidden_state, own)


@needs_packing
def test_a_fused_decoder_returns_the_cache_that_it_was_given():
    model = build_model("llama")
    pack(model)
    target = Target(model)
    target.begin(20)
    target.kv_cache.open(1)
    ids = torch.from_numpy(PROMPT.astype(np.int64))[None]
    given = {cache_argument(model): target.cache}
    with torch.inference_mode():
        out = model(input_ids=ids, position_ids=torch.arange(ids.shape[1])[None], **given)
    assert out[cache_argument(model)] is target.cache
