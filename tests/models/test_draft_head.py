import json
import re
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from tasc.errors import IntegrityError
from tasc.models.draft_head import load_head, new_head
from tests.models import strangers
from tests.models.strangers import bomb, headed
from tests.pico import build_model

D, HEADS, KV, INNER = 64, 4, 2, 128
EAGLE_NAMES = {
    "fc.weight": (D, 2 * D),
    "layers.0.self_attn.q_proj.weight": (D, D),
    "layers.0.self_attn.k_proj.weight": (D // 2, D),
    "layers.0.self_attn.v_proj.weight": (D // 2, D),
    "layers.0.self_attn.o_proj.weight": (D, D),
    "layers.0.mlp.gate_proj.weight": (INNER, D),
    "layers.0.mlp.up_proj.weight": (INNER, D),
    "layers.0.mlp.down_proj.weight": (D, INNER),
    "layers.0.post_attention_layernorm.weight": (D,),
}
BIASES = {
    "fc.bias": (D,),
    "layers.0.self_attn.q_proj.bias": (D,),
    "layers.0.self_attn.k_proj.bias": (D // 2,),
    "layers.0.self_attn.v_proj.bias": (D // 2,),
}
CONFIG = {  # as published: the fields of LlamaConfig, and more
    "architectures": ["LlamaForCausalLM"],
    "bos_token_id": 1,
    "hidden_act": "silu",
    "hidden_size": D,
    "intermediate_size": INNER,
    "max_position_embeddings": 512,
    "model_type": "llama",
    "num_attention_heads": HEADS,
    "num_hidden_layers": 1,
    "num_key_value_heads": KV,
    "rms_norm_eps": 1e-6,
    "rope_theta": 5000.0,
    "torch_dtype": "float16",
    "transformers_version": "4.28.1",
    "vocab_size": 320,
}


@pytest.fixture(scope="module")
def model():
    return build_model()


def publish(folder, names, **config):
    """Write a checkpoint as EAGLE's authors do; return its tensors."""
    generator = torch.Generator().manual_seed(3)
    tensors = {n: torch.randn(s, generator=generator) * 0.2 for n, s in names.items()}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    save_file(tensors | {"embed_tokens.weight": torch.zeros(320, D)}, folder / "model.safetensors")
    return tensors


def by_hand(w, embedded, hidden, theta=5000.0):
    """EAGLE's head on one sequence, written out: (q, d) from (q, d) and (q, d)."""

    def rotated(x):
        q, _, dim = x.shape
        angle = torch.arange(q)[:, None] / theta ** (torch.arange(0, dim, 2) / dim)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        a, b = x[..., : dim // 2], x[..., dim // 2 :]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", torch.zeros(1))

    x = linear(torch.cat((embedded, hidden), -1), "fc")
    n, at = len(x), "layers.0.self_attn"
    q = rotated(linear(x, f"{at}.q_proj").view(n, HEADS, -1))
    k = rotated(linear(x, f"{at}.k_proj").view(n, KV, -1)).repeat_interleave(HEADS // KV, 1)
    v = linear(x, f"{at}.v_proj").view(n, KV, -1).repeat_interleave(HEADS // KV, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -torch.inf)
    read = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(n, -1)
    x = x + linear(read, f"{at}.o_proj")
    y = x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
    y = y * w["layers.0.post_attention_layernorm.weight"]
    gate = functional.silu(linear(y, "layers.0.mlp.gate_proj")) * linear(y, "layers.0.mlp.up_proj")
    return x + linear(gate, "layers.0.mlp.down_proj")


@pytest.mark.parametrize("names", [EAGLE_NAMES, EAGLE_NAMES | BIASES], ids=["llama", "qwen2"])
def test_a_published_checkpoint_computes_what_eagle_defines(model, tmp_path, names):
    weights = publish(tmp_path / "eagle", names)
    head = load_head(tmp_path / "eagle", model)
    embedded, hidden = torch.randn(2, 9, D, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        said = head(embedded[None], hidden[None], torch.arange(9)[None])[0]
    torch.testing.assert_close(said, by_hand(weights, embedded, hidden), rtol=1e-4, atol=1e-4)


def test_a_saved_head_is_the_same_head_under_eagles_names(model, tmp_path):
    head = new_head(model)
    head.save(tmp_path)
    shapes = {n: tuple(t.shape) for n, t in head.state_dict().items()}
    assert shapes == EAGLE_NAMES | {"fc.bias": (D,)}
    again = load_head(tmp_path, model).state_dict()
    torch.testing.assert_close(again, head.state_dict(), rtol=0, atol=0)
    stated = json.loads((tmp_path / "config.json").read_text())
    assert stated["num_hidden_layers"] == 1
    assert stated["bias"] is True


def test_positions_turn_as_the_targets_do(tmp_path):
    model = build_model()
    vars(model.config)["intermediate_size"] = [16, 48, 32]  # one of each layer
    assert new_head(model).config.intermediate_size == 48
    model.config.rope_parameters = {"rope_type": "default", "rope_theta": 777.0}
    new_head(model).save(tmp_path)
    loaded = load_head(tmp_path, model)
    assert loaded.config.rope_parameters["rope_theta"] == 777.0
    assert float(loaded.rotary.inv_freq[1]) == pytest.approx(777.0 ** (-2 / 16))


refused = partial(strangers.refused, load_head)


@pytest.mark.parametrize(
    ("names", "change", "said"),
    [
        ({}, {"hidden_size": 32}, "belongs to another model"),
        ({}, {"vocab_size": 999}, "made for 999 tokens"),
        ({}, {"intermediate_size": 96}, "not the weights of an EAGLE"),
        ({"midlayer.norm.weight": (D,)}, {}, "midlayer.norm.weight"),  # EAGLE-3 has such ones
    ],
)
def test_a_head_of_another_target_or_method_is_refused(model, tmp_path, names, change, said):
    publish(tmp_path, EAGLE_NAMES | names, **change)
    assert said in refused(tmp_path, model)


def test_a_missing_folder_and_a_model_are_no_head(model, tmp_path):
    assert "tasc finetune --draft-head" in refused(tmp_path / "nowhere", model)
    model.save_pretrained(tmp_path)
    assert "holds no EAGLE head: give the folder" in refused(tmp_path, model)


@pytest.fixture
def head(model, tmp_path):
    new_head(model).save(tmp_path / "head")
    return tmp_path / "head"


def stated(folder, **change):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "head.pt"])
def test_a_pickle_beside_no_weights_is_refused_and_not_loaded(head, model, tmp_path, name):
    (head / "model.safetensors").unlink()
    bomb(head / name, tmp_path / "ran")
    assert re.search(f"{name}, a pickle.*save_file", refused(head, model))
    assert not (tmp_path / "ran").exists()


def test_weights_linked_from_elsewhere_are_refused(head, model, tmp_path):
    (head / "model.safetensors").rename(tmp_path / "elsewhere")
    (head / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    assert "outside the folder" in refused(head, model)


@pytest.mark.parametrize("text", ["", "[1]", "[]", "null", "[" * 10**5, "\xff"])
def test_a_config_that_is_no_json_object_is_refused(head, model, text):
    (head / "config.json").write_text(text, encoding="latin-1")
    said = r"config\.json is not (a JSON object|JSON).*: download or save the model again$"
    assert re.search(said, refused(head, model))


@pytest.mark.parametrize("content", [b"", b"damaged", headed({}, length=2**63), headed([])])
def test_damaged_weights_are_refused(head, model, content):
    (head / "model.safetensors").write_bytes(content)
    assert "damaged" in refused(head, model, kind=IntegrityError)


def test_weights_that_are_not_numbers_are_refused(head, model):
    file = head / "model.safetensors"
    weights = {n: torch.full_like(t, torch.nan) for n, t in load_file(file).items()}
    save_file(weights, file)
    assert "computes NaN" in refused(head, model, kind=IntegrityError)


@pytest.mark.parametrize("key", ["hidden_size", "intermediate_size", "num_attention_heads"])
@pytest.mark.parametrize("value", [0, -1, 10**12, 2**63, "64", None, [], {"x": 1}, True, 3])
def test_sizes_that_the_weights_do_not_have_are_refused(head, model, key, value):
    stated(head, **{key: value})
    refused(head, model)


@pytest.mark.parametrize(
    "change", [{"num_attention_heads": []}, {"hidden_act": "x"}, {"rope_parameters": 3}], ids=str
)
def test_a_config_that_describes_no_head_is_refused(head, model, change):
    stated(head, **change)
    assert refused(head, model).endswith(": fetch or train it again")


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": 10**9},
        {"layer_types": ["no such"] * 5},
        {"attn_implementation": "somebody/kernel"},
        {"quantization_config": {"quant_method": "gptq"}},
        {"auto_map": {"AutoModel": "modeling.Model"}},
    ],
    ids=str,
)
def test_keys_that_a_head_does_not_need_change_nothing(head, model, change):
    stated(head, **change)
    load_head(head, model)


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("qwen3", {"hidden": 60}),  # 60 / 4 is odd
        ("qwen3", {"hidden": 66}),  # 4 does not divide 66
        ("gemma4_text", {"attention_k_eq_v": True, "num_global_key_value_heads": 1}),
        ("opt", {"word_embed_proj_dim": 32}),  # smaller states than between the layers
    ],
)
def test_a_head_reads_the_states_of_any_shape(kind, own):
    model = build_model(kind, **own)
    hidden = model.base_model(torch.ones(1, 3, dtype=torch.int64)).last_hidden_state
    head = new_head(model)
    assert head(hidden, hidden, torch.arange(3)[None]).shape == hidden.shape
