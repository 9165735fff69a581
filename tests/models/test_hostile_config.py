"""A config.json that is damaged, absurd, or opens a door to code."""

import json
import re

import pytest
import torch

from tasc.errors import InputError, TascError
from tasc.models.load import load_model
from tests import pico
from tests.models import strangers
from tests.models.strangers import bomb, copied

SIZES = ("num_hidden_layers", "hidden_size", "num_attention_heads")
NO_SIZES = (0, -1, "64", None, 1.5, [], {"x": 1}, True)


def refused(folder, **options):
    return strangers.refused(load_model, str(folder), kind=TascError, **options)


@pytest.mark.parametrize(
    "change",
    [
        *({"num_hidden_layers": 10**7}, {"num_hidden_layers": 10**12}),
        *({"num_hidden_layers": 10**30}, {"num_hidden_layers": 900}),
        *({"vision_config": {"num_hidden_layers": 10**9}}, {"vocab_size": 10**12}),
        *({"vocab_size": 60_000, "hidden_size": 60_000}, {"hidden_size": 2**63}),
        *({"intermediate_size": 10**15}, {"num_attention_heads": 10**9}, {"head_dim": 10**9}),
        *({"max_position_embeddings": 10**30},),
    ],
    ids=str,
)
@pytest.mark.parametrize("quantize", ["none", "nf4"])
def test_absurd_sizes_are_refused_before_they_cost(base, tmp_path, change, quantize):
    refused(copied(base, tmp_path / "model", **change), quantize=quantize)


@pytest.mark.parametrize(
    "change",
    [
        *({key: value} for key in SIZES for value in NO_SIZES),
        *({"vocab_size": 319}, {"num_key_value_heads": 3}, {"num_attention_heads": 7}),
        *({"hidden_act": "no such"}, {"rms_norm_eps": float("nan")}),
        *({"rope_parameters": {"rope_type": "no such"}}, {"rope_parameters": "x"}),
        *({"layer_types": ["no such"] * 2}, {"architectures": "Qwen2ForCausalLM"}),
        *({"architectures": [3]}, {"model_type": ["qwen2"]}, {"model_type": "no such"}),
        *({"dtype": "no such"}, {"quantization_config": 3}),
        *({"quantization_config": {"quant_method": "no such"}},),
        *({"quantization_config": {"quant_method": ["gptq"]}},),
    ],
    ids=str,
)
def test_values_that_make_no_model_are_refused(base, tmp_path, capfd, change):
    refused(copied(base, tmp_path / "model", **change))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 10**5, '{"a":' * 10**5, "[1]", "\xff\xfe", "null", '{"x": 1' + "0" * 5000],
    ids=lambda text: text[:9],
)
def test_what_is_no_json_object_is_refused(base, tmp_path, text):
    for name in ("config.json", "generation_config.json"):
        folder = copied(base, tmp_path / name)
        (folder / name).write_text(text, encoding="latin-1")
        assert re.search(rf": {name} is not (a JSON object|JSON: )", refused(folder))


@pytest.mark.parametrize("ends", ["x", [None], {"a": 1}, [[0]], 1.5])
def test_an_end_token_that_is_no_id_is_refused(base, tmp_path, ends):
    folder = copied(base, tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    assert "is not a token id" in refused(folder)


@pytest.mark.parametrize("method", ["gptq", "awq", "bitsandbytes", "fp8"])
def test_a_quantised_model_is_not_quantised_again(base, tmp_path, method):
    folder = copied(base, tmp_path / "m", quantization_config={"quant_method": method, "bits": 4})
    assert "use the original model" in refused(folder, quantize="nf4")


def test_weights_named_in_the_config_are_not_followed(base, tmp_path):
    folder = copied(base, tmp_path / "model", transformers_weights="adapter_model.bin")
    bomb(folder / "adapter_model.bin", tmp_path / "ran")
    assert "transformers_weights" in refused(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
@pytest.mark.parametrize("deep", [False, True])
def test_kernels_named_in_the_config_are_not_fetched(base, tmp_path, key, deep):
    change = {key: "somebody/kernel"}
    folder = copied(base, tmp_path / "model", **({"text_config": change} if deep else change))
    assert "somebody/kernel" in refused(folder)


def test_an_adapter_beside_a_model_is_refused_and_not_loaded(base, tmp_path):
    folder = copied(base, tmp_path / "model")
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "somebody/else"}')
    bomb(folder / "adapter_model.bin", tmp_path / "ran")
    assert "adapter beside the model" in refused(folder)
    assert not (tmp_path / "ran").exists()


def test_code_in_a_model_folder_is_never_run(base, tmp_path):
    known = {"AutoModelForCausalLM": "modeling.Model", "AutoConfig": "modeling.Config"}
    folder = copied(base, tmp_path / "model", auto_map=known)
    (folder / "custom_generate").mkdir()
    for name in ("modeling.py", "custom_generate/generate.py"):
        (folder / name).write_text(f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\n")
    model = load_model(str(folder))
    ids = torch.tensor([[1, 2]])
    model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=1, do_sample=False)
    assert not (tmp_path / "ran").exists()
    own = copied(folder, tmp_path / "own", model_type="own")
    assert "own code is never run" in refused(own)
    assert not (tmp_path / "ran").exists()


def test_a_refusal_is_an_input_error_where_the_config_is_wrong(base, tmp_path):
    with pytest.raises(InputError, match="num_hidden_layers 10000000"):
        load_model(str(copied(base, tmp_path / "model", num_hidden_layers=10**7)))


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_a_file_does_not_say_what_is_returned_beside_logits(tmp_path, file):
    folder = pico.make_model(tmp_path / "model")
    said = json.loads((folder / file).read_text()) | {"output_hidden_states": "False"}
    (folder / file).write_text(json.dumps(said))
    try:
        model = load_model(str(folder))
    except TascError:
        return  # transformers refuses it by itself in config.json
    model.generate(torch.tensor([[1, 2]]), max_new_tokens=2, do_sample=False)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"peft_type": "LORA", "r": 4}, "with --merge.*merge_and_unload"),
        ({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 4}, "'PROMPT_TUNING', which cannot"),
        ({"peft_type": "PREFIX_TUNING", "num_virtual_tokens": 4}, "'PREFIX_TUNING', which cannot"),
        ({"peft_type": "ADAPTION_PROMPT"}, "'ADAPTION_PROMPT', which cannot be merged"),
        ({"peft_type": "LORA", "alora_invocation_tokens": [1]}, "activated LoRA, which cannot"),
    ],
)
def test_the_folder_of_an_adapter_is_refused_with_what_to_do(tmp_path, values, told):
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(values))
    assert re.search(told, refused(folder))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    assert re.search(told, refused(folder))
