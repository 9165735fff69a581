import json
from dataclasses import replace

import pytest
import torch

from tasc.errors import InputError, IntegrityError, UnavailableError
from tasc.models import load
from tasc.models.folder.vocabulary import check_tokens
from tasc.models.load import load_model, resolve_device
from tasc.models.packed import is_int8
from tasc.options.command import OptionsError
from tasc.tokenizer.loaded import load_tokenizer
from tests import pico
from tests.models.test_packed import needs_packing
from tests.options import BenchOptions


def test_a_saved_model_loads_in_its_own_dtype_and_in_evaluation_mode(tmp_path):
    folder = pico.make_model(tmp_path, dtype=torch.bfloat16)
    model = load_model(str(folder))
    assert model.dtype == torch.bfloat16
    assert not model.training
    assert load_model(str(folder), dtype="float32").dtype == torch.float32


@pytest.mark.parametrize("architecture", pico.ARCHITECTURES)
def test_quantised_layers_are_double_quantised_nf4_and_the_head_is_not(tmp_path, architecture):
    model = load_model(str(pico.make_model(tmp_path, architecture, tied=False)), quantize="nf4")
    weight = model.get_submodule("model.layers.0.mlp.up_proj").weight
    assert weight.quant_state.quant_type == "nf4"
    assert weight.quant_state.nested
    assert model.get_submodule("model.layers.0.mlp.up_proj").compute_dtype == torch.bfloat16
    assert model.get_output_embeddings().weight.dtype == torch.float32
    with torch.no_grad():
        assert torch.isfinite(model(torch.tensor([[1, 2, 3]])).logits).all()


def test_evaluating_a_quantised_model_leaves_its_weights_as_they_are(base):
    model = load_model(str(base), quantize="nf4")
    weight = model.get_submodule("model.layers.0.mlp.up_proj").weight
    before = weight.data.clone()
    with torch.no_grad():
        model(torch.tensor([[1, 2, 3]]))
    assert torch.equal(weight.data, before)
    assert weight.quant_state.nested


def test_loading_prints_nothing(base, capfd):
    load_model(str(base))
    load_model(str(base), quantize="nf4")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing", "a/b/c", "what is this"])
def test_a_path_that_is_not_there_is_refused(name):
    with pytest.raises(InputError, match="no such folder"):
        load_model(name)


def test_a_folder_without_config_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        load_model(str(tmp_path))


def test_a_file_instead_of_a_folder_is_refused(base):
    with pytest.raises(InputError, match="is a file"):
        load_model(str(base / "config.json"))


def test_a_config_that_is_not_json_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        load_model(str(tmp_path))


def test_a_model_of_another_kind_is_refused(tmp_path):
    config = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"not a causal language model.*BertForSequence"):
        load_model(str(tmp_path))


def test_weights_that_are_not_safetensors_are_refused(base, tmp_path):
    (tmp_path / "config.json").write_bytes((base / "config.json").read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"not read")
    with pytest.raises(InputError, match="no safetensors"):
        load_model(str(tmp_path))


def test_cut_weights_are_an_integrity_error(base, tmp_path):
    (tmp_path / "config.json").write_bytes((base / "config.json").read_bytes())
    weights = (base / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(IntegrityError, match=r"damaged|cannot be read"):
        load_model(str(tmp_path))


def test_missing_weights_are_an_integrity_error(base, tmp_path):
    from safetensors.torch import load_file, save_file

    (tmp_path / "config.json").write_bytes((base / "config.json").read_bytes())
    tensors = load_file(base / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(IntegrityError, match="up_proj"):
        load_model(str(tmp_path))


def test_an_unreachable_hub_is_said_to_be_so(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UnavailableError, match="the Hub cannot be reached"):
        load_model("tasc-tests/there-is-no-such-model")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_device_is_said_to_be_missing():
    assert resolve_device("auto") == "cpu"
    with pytest.raises(UnavailableError, match="no CUDA device"):
        resolve_device("cuda")


def test_a_model_may_have_more_rows_than_tokens_but_not_fewer(tmp_path):
    tokenizer = load_tokenizer(str(pico.make_tokenizer(tmp_path)))
    small, padded = (str(pico.make_model(tmp_path / str(n), vocabulary=n)) for n in (319, 400))
    load_model(padded, tokenizer=tokenizer)
    with pytest.raises(InputError, match="320 tokens, but the model has 319 embedding rows: use"):
        load_model(small, tokenizer=tokenizer)
    tokenizer.tokenizer.add_special_tokens(["<image>"])  # of a larger model that shares it
    load_model(padded, tokenizer=tokenizer)
    check_tokens(replace(tokenizer), 320)


@pytest.mark.parametrize("has", [True, False])
def test_auto_decodes_in_what_the_processor_multiplies_fastest(monkeypatch, has):
    monkeypatch.setattr(load, "device_has_bfloat16", lambda device: has)
    assert load.decoding_dtype("auto", "cpu") == ("bfloat16" if has else "float32")
    assert load.decoding_dtype("float32", "cpu") == "float32"
    monkeypatch.setattr(load, "resolve_device", lambda device: "cuda:0")
    assert load.decoding_dtype("auto", "cuda") == "auto"


@pytest.mark.parametrize(
    ("device", "error"),
    [
        ("cpu", "needs a CPU with AVX2 or AVX-512: use --dtype float32"),
        ("cuda:0", "is for CPUs, and the device is cuda:0: use --device cpu"),
    ],
)
def test_int8_needs_packed_layers(device, error, monkeypatch):
    monkeypatch.setattr(load, "resolve_device", lambda _device: device)
    monkeypatch.setattr(load, "can_pack", lambda: False)
    with pytest.raises(UnavailableError, match=error):
        load.load_to_decode("anything", "int8", "auto", None)
    for other in ({"kernels": "torch"}, {"compile": True}):
        with pytest.raises(OptionsError, match=f"int8 needs packed weights: remove {min(other)}"):
            BenchOptions(dtype="int8", **other)


@needs_packing
def test_int8_rounds_linear_layers_alone(tmp_path):
    folder = str(pico.make_model(tmp_path))
    model = load.load_to_decode(folder, "int8", "cpu", None)
    assert is_int8(model)
    assert model.dtype == getattr(torch, load.decoding_dtype("int8", "cpu"))
    embedding = load_model(folder).get_input_embeddings().weight
    assert torch.equal(model.get_input_embeddings().weight, embedding.to(model.dtype))
