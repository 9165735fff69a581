import json
import logging
import warnings
from dataclasses import replace

import pytest
import torch
from transformers import Gemma2PreTrainedModel
from transformers.utils import logging as transformers_logging

from tasc.errors import InputError, UnavailableError
from tasc.models import load
from tasc.models.folder.quiet import quiet
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
    assert model.config._name_or_path == str(folder)
    assert load_model(str(folder), dtype="float32").dtype == torch.float32


@pytest.mark.parametrize("architecture", pico.ARCHITECTURES)
def test_layers_are_nested_nf4_which_evaluating_keeps_and_the_head_is_not(tmp_path, architecture):
    model = load_model(str(pico.make_model(tmp_path, architecture, tied=False)), quantize="nf4")
    weight = model.get_submodule("model.layers.0.mlp.up_proj").weight
    assert weight.quant_state.quant_type == "nf4"
    assert weight.quant_state.nested
    assert model.get_submodule("model.layers.0.mlp.up_proj").compute_dtype == torch.bfloat16
    assert model.get_output_embeddings().weight.dtype == torch.float32
    before = weight.data.clone()
    with torch.no_grad():
        assert torch.isfinite(model(torch.tensor([[1, 2, 3]])).logits).all()
    assert torch.equal(weight.data, before), "evaluating changed the weights"
    assert weight.quant_state.nested


def test_loading_prints_nothing(base, capfd):
    load_model(str(base))
    load_model(str(base), quantize="nf4")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((name, "no such folder") for name in ("/no/folder", "./nothing", "a/b/c", "what is it")),
        ("{tmp}", r"no config\.json"),
        ("{base}/config.json", "is a file"),
    ],
)
def test_a_path_without_a_model_is_refused(base, tmp_path, name, said):
    with pytest.raises(InputError, match=said):
        load_model(name.format(base=base, tmp=tmp_path))


def test_a_model_of_another_kind_is_refused(tmp_path):
    config = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"not a causal language model.*BertForSequence"):
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
        ("cpu", "needs a CPU with AVX2, AVX-512 or NEON: use --dtype float32"),
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


def test_what_libraries_say_stays_off_the_terminal_and_is_heard_again_later(capfd, caplog):
    log = logging.getLogger("peft.some")
    level = transformers_logging.get_verbosity()
    with quiet():
        warnings.warn("hidden", stacklevel=1)
        log.warning("hidden")
        transformers_logging.get_logger("transformers.some").error("hidden")
    assert capfd.readouterr() == ("", "")
    assert transformers_logging.get_verbosity() == level
    log.warning("heard")
    assert [record.message for record in caplog.records] == ["heard"]


def test_a_mixture_that_reports_its_router_still_scores_trees(tmp_path):
    folder = pico.make_model(tmp_path, "mixtral", output_router_logits=True)
    model = load_model(str(folder))
    assert model(input_ids=torch.ones(1, 2, dtype=torch.int64)).router_logits is None


@pytest.mark.parametrize(
    ("dtype", "multiplies", "expected"),
    [
        ("auto", True, "auto"),
        ("auto", False, "float32"),
        ("bfloat16", False, "bfloat16"),
        ("float32", True, "float32"),
    ],
)
def test_bfloat16_is_not_emulated_in_training_unless_asked_for(
    monkeypatch, dtype, multiplies, expected
):
    monkeypatch.setattr(load, "device_has_bfloat16", lambda _device: multiplies)
    assert load.training_dtype(dtype, "cpu") == expected


def test_capped_attention_scores_stay_capped_whatever_transformers_chooses(tmp_path, monkeypatch):
    """transformers before 5.21 loads Gemma 2 with sdpa, which has no cap."""
    model = pico.build_model("gemma2", attn_logit_softcapping=0.5, query_pre_attn_scalar=1)
    model.save_pretrained(tmp_path)
    monkeypatch.setattr(Gemma2PreTrainedModel, "_supports_sdpa", True)
    ids = torch.arange(20)[None]
    model.set_attn_implementation("eager")
    loaded = load_model(str(tmp_path), "float32")
    assert loaded.config._attn_implementation == "eager"
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, model(ids).logits)
