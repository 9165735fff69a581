"""Draft heads from untrusted sources."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from tasc.errors import IntegrityError, TascError
from tasc.models.draft_head import load_head, new_head
from tests.models.strangers import bomb, headed
from tests.pico import build_model


@pytest.fixture(scope="module")
def model():
    return build_model()


@pytest.fixture
def head(model, tmp_path):
    """The folder of a good head."""
    new_head(model).save(tmp_path / "head")
    return tmp_path / "head"


def refused(folder, model):
    with pytest.raises(TascError) as caught:
        load_head(folder, model)
    line = str(caught.value)
    assert str(folder) in line
    assert "\n" not in line
    return line


def stated(folder, **change):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "head.pt"])
def test_a_pickle_beside_no_weights_is_refused_and_not_loaded(head, model, tmp_path, name):
    (head / "model.safetensors").unlink()
    bomb(head / name, tmp_path / "ran")
    assert "a pickle" in refused(head, model)
    assert not (tmp_path / "ran").exists()


def test_weights_linked_from_elsewhere_are_refused(head, model, tmp_path):
    (head / "model.safetensors").rename(tmp_path / "elsewhere")
    (head / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    assert "outside the folder" in refused(head, model)


@pytest.mark.parametrize("text", ["", "[1]", "null", "[" * 10**5, "\xff"])
def test_a_config_that_is_no_json_object_is_refused(head, model, text):
    (head / "config.json").write_text(text, encoding="latin-1")
    assert "config.json is not" in refused(head, model)


@pytest.mark.parametrize("content", [b"", headed({}, length=2**63), headed([])])
def test_damaged_weights_are_refused(head, model, content):
    (head / "model.safetensors").write_bytes(content)
    refused(head, model)


def test_weights_that_are_not_numbers_are_refused(head, model):
    file = head / "model.safetensors"
    weights = {n: torch.full_like(t, float("nan")) for n, t in load_file(file).items()}
    save_file(weights, file)
    with pytest.raises(IntegrityError, match="computes NaN"):
        load_head(head, model)


@pytest.mark.parametrize("key", ["hidden_size", "intermediate_size", "num_attention_heads"])
@pytest.mark.parametrize("value", [0, -1, 10**12, 2**63, "64", None, [], {"x": 1}, True, 3])
def test_sizes_that_the_weights_do_not_have_are_refused(model, tmp_path, key, value):
    new_head(model).save(tmp_path)
    stated(tmp_path, **{key: value})
    refused(tmp_path, model)


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
def test_keys_that_a_head_does_not_need_change_nothing(model, tmp_path, change):
    new_head(model).save(tmp_path)
    stated(tmp_path, **change)
    load_head(tmp_path, model)
