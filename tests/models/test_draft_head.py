import json

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional

from tasc.errors import InputError, IntegrityError
from tasc.models.draft_head import load_head, new_head
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


@pytest.fixture
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
    x = x + linear(
        torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(n, -1), f"{at}.o_proj"
    )
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
    assert {n: tuple(t.shape) for n, t in head.state_dict().items()} == EAGLE_NAMES | {
        "fc.bias": (D,)
    }
    again = load_head(tmp_path, model).state_dict()
    assert all(torch.equal(t, again[n]) for n, t in head.state_dict().items())
    stated = json.loads((tmp_path / "config.json").read_text())
    assert stated["num_hidden_layers"] == 1
    assert stated["bias"] is True


def test_positions_turn_as_the_targets_do(tmp_path):
    model = build_model()
    model.config.rope_parameters = {"rope_type": "default", "rope_theta": 777.0}
    new_head(model).save(tmp_path)
    loaded = load_head(tmp_path, model)
    assert loaded.config.rope_parameters["rope_theta"] == 777.0
    assert float(loaded.rotary.inv_freq[1]) == pytest.approx(777.0 ** (-2 / 16))


def test_a_pickle_is_refused_and_the_conversion_named(model, tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02.")
    with pytest.raises(InputError, match=r"pytorch_model.bin, a pickle.*save_file"):
        load_head(tmp_path, model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 32}, "belongs to another model"),
        ({"vocab_size": 999}, "made for 999 tokens"),
        ({"intermediate_size": 96}, "not the weights of an EAGLE"),
    ],
)
def test_a_head_of_another_target_is_refused(model, tmp_path, change, message):
    publish(tmp_path, EAGLE_NAMES, **change)
    with pytest.raises(InputError, match=message):
        load_head(tmp_path, model)


def test_a_model_is_no_head(model, tmp_path):
    model.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="holds no EAGLE head: give the folder"):
        load_head(tmp_path, model)


def test_missing_and_damaged_folders_are_told_apart(model, tmp_path):
    with pytest.raises(InputError, match="tasc finetune --draft-head"):
        load_head(tmp_path / "nowhere", model)
    publish(tmp_path, EAGLE_NAMES)
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(IntegrityError, match="damaged"):
        load_head(tmp_path, model)


@pytest.mark.parametrize(
    "config",
    ["[]", "null", '{"num_attention_heads": []}', '{"hidden_act": "x"}', '{"rope_parameters": 3}'],
)
def test_a_configuration_that_describes_no_head_is_refused_in_one_line(model, tmp_path, config):
    publish(tmp_path, EAGLE_NAMES)
    path = tmp_path / "config.json"
    changed = json.loads(config)
    if isinstance(changed, dict):
        changed = json.loads(path.read_text()) | changed
    path.write_text(json.dumps(changed))
    with pytest.raises(
        InputError, match=r"((download or save the model|fetch or train it) again)$"
    ) as caught:
        load_head(tmp_path, model)
    assert "\n" not in str(caught.value)


def test_an_unknown_weight_is_named(model, tmp_path):
    publish(tmp_path, EAGLE_NAMES | {"midlayer.norm.weight": (D,)})  # EAGLE-3 has such ones
    with pytest.raises(InputError, match=r"midlayer\.norm\.weight"):
        load_head(tmp_path, model)
