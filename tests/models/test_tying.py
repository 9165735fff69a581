"""config.json about the LM head, decided from the files and from the loaded model alike."""

import json
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForImageTextToText, LlamaConfig

from tasc.errors import InputError
from tasc.models.embeddings import extend_embeddings, keep_rows
from tasc.models.folder.older_names import portable
from tasc.models.folder.tying import is_tied
from tasc.models.load import check_model, load_model
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.folder import save_model
from tests import pico
from tests.checkpoints import Checkpoint, says
from tests.training.samples import ROWS

VISION = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "patch_size": 4}
NESTED = {
    "qwen3_5": ("qwen3_5_text", {"depth": 1, "num_heads": 2, "out_hidden_size": 64}),
    "gemma3": ("gemma3_text", {"num_hidden_layers": 1, "image_size": 16}),
}
IDS = torch.arange(5, 15)[None]
ROPE = {"rope_type": "default", "rope_theta": 5e5}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 64}


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


def nested(folder, kind, outer, inner):
    """A model with vision whose head is not its embedding; its config.json says anything."""
    text, vision = NESTED[kind]
    parts = {"text_config": pico.build_model(text, tied=False).config.to_dict()}
    parts["vision_config"] = VISION | vision
    config = AutoConfig.for_model(kind, **parts, tie_word_embeddings=False)
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(config).eval()
    pico.make_tokenizer(folder)
    model.save_pretrained(folder)
    values = json.loads((folder / "config.json").read_text())
    values.pop("tie_word_embeddings", None)
    values["text_config"].pop("tie_word_embeddings", None)
    values["text_config"] |= says(inner)
    (folder / "config.json").write_text(json.dumps(values | says(outer)))
    return logits(model)


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("outer", [True, False, None])
@pytest.mark.parametrize("inner", [True, False, None])
def test_a_nested_configuration_is_corrected_at_both_levels(kind, outer, inner, tmp_path):
    expected = nested(tmp_path / "model", kind, outer, inner)
    _, config = check_model(str(tmp_path / "model"))
    model = load_model(str(tmp_path / "model"))
    for each in (config, config.get_text_config(), model.config, model.config.get_text_config()):
        assert each.tie_word_embeddings is False
    torch.testing.assert_close(logits(model), expected)
    extend_embeddings(model, ROWS, 322)
    torch.testing.assert_close(logits(model)[..., :320], expected)
    save_model(model, load_tokenizer(str(tmp_path / "model")), tmp_path / "out")
    values = json.loads((tmp_path / "out/config.json").read_text())
    assert values["tie_word_embeddings"] is values["text_config"]["tie_word_embeddings"] is False
    for read in (load_model(str(tmp_path / "out")), whole(tmp_path / "out")):
        torch.testing.assert_close(logits(read)[..., :320], expected)


def whole(folder):
    return AutoModelForImageTextToText.from_pretrained(folder).eval()


@pytest.mark.parametrize(
    "architecture", ["llama", "qwen2", "gemma", "gemma3_text", "gemma4_text", "gpt2", "phi", "opt"]
)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("says_tied", [True, False])
def test_files_and_loaded_model_agree(architecture, tied, says_tied, tmp_path):
    folder = Checkpoint(tied, says_tied, has_head=True).save(tmp_path, architecture)
    _, config = check_model(str(folder))
    model = load_model(str(folder))
    assert is_tied(model) is config.tie_word_embeddings is model.config.tie_word_embeddings
    assert is_tied(model) is (tied and says_tied)
    head = load_file(folder / "model.safetensors")["lm_head.weight"]
    assert torch.equal(model.get_output_embeddings().weight, head)


@pytest.mark.parametrize("architecture", ["llama", "gemma3_text", "gpt2"])
def test_rows_of_both_matrices_are_kept(architecture, tmp_path):
    contrary = Checkpoint(tied=False, says_tied=True, has_head=True)
    folder, kept = contrary.save(tmp_path / "model", architecture), [*range(40), 77, 300]
    model = load_model(str(folder))
    expected = logits(model)[..., kept]
    keep_rows(model, kept)
    torch.testing.assert_close(logits(model), expected)


@pytest.mark.parametrize("says_tied", [True, None])
def test_an_architecture_that_is_tied_by_default_needs_no_head(says_tied, tmp_path):
    folder = Checkpoint(tied=True, says_tied=says_tied, has_head=False).save(tmp_path, "gemma")
    assert is_tied(load_model(str(folder)))


def test_a_head_with_a_bias_of_its_own_stays_apart(tmp_path):
    folder = Checkpoint(tied=False, says_tied=True, has_head=True).save(tmp_path, "phi")
    model = load_model(str(folder))
    expected = logits(model)
    extend_embeddings(model, ROWS, 322)
    torch.testing.assert_close(logits(model)[..., :320], expected)


def test_a_missing_head_is_named_and_not_made_up(tmp_path):
    folder = Checkpoint(tied=False, says_tied=False, has_head=False).save(tmp_path)
    with pytest.raises(InputError, match=r"tie_word_embeddings in .* is false: set it"):
        load_model(str(folder))


def test_older_loaders_find_rope_and_dtype_by_their_names():
    """transformers 4.57 finds no rope_theta in rope_parameters, and silently takes 10,000."""
    values = {"model_type": "llama", "dtype": "bfloat16", "rope_parameters": ROPE}
    read = portable(values, tied=False)
    assert read.items() >= values.items()
    assert read["rope_theta"] == 5e5
    assert read["torch_dtype"] == "bfloat16"
    assert read["tie_word_embeddings"] is False
    assert "rope_scaling" not in read
    scaled = {"rope_type": "llama3", "rope_theta": 5e5, "partial_rotary_factor": 0.5} | LLAMA3
    read = portable({"model_type": "llama", "rope_parameters": scaled}, tied=True)
    assert read["rope_scaling"] == {"rope_type": "llama3", "type": "llama3"} | LLAMA3
    assert read["partial_rotary_factor"] == 0.5


def test_older_loaders_find_the_rope_of_both_kinds_of_layers_of_gemma_3():
    full = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}
    parts = {"full_attention": full, "sliding_attention": ROPE}
    text = {"model_type": "gemma3_text", "rope_parameters": parts}
    read = portable({"model_type": "gemma3", "text_config": text}, tied=True)["text_config"]
    assert (read["rope_theta"], read["rope_local_base_freq"]) == (1e6, 5e5)
    assert read["rope_scaling"] == {"rope_type": "linear", "type": "linear", "factor": 8.0}


LINEAR = {"rope_type": "linear", "factor": 4.0}
CONTRADICTORY: dict[str, dict[str, Any]] = {
    "theta": {"rope_theta": 777.0, "rope_parameters": ROPE},
    "theta-in-scaling": {"rope_theta": 777.0, "rope_scaling": LINEAR | {"rope_theta": 333.0}},
    "scaling": {"rope_theta": 777.0, "rope_scaling": LINEAR, "rope_parameters": ROPE},
    "scaling-alone": {"rope_scaling": LINEAR, "rope_parameters": ROPE},
    "default-scaling": {"rope_scaling": {"rope_type": "default"}, "rope_parameters": ROPE | LLAMA3},
}


@pytest.mark.parametrize("names", CONTRADICTORY)
def test_names_that_contradict_get_what_this_transformers_reads(names):
    values = {"model_type": "llama", "torch_dtype": "float16", "dtype": "bfloat16"}
    values = {**values, **CONTRADICTORY[names]}
    expected = LlamaConfig.from_dict(json.loads(json.dumps(values)))
    read = portable(values, tied=False)
    again = LlamaConfig.from_dict(json.loads(json.dumps(read)))
    for name in ("rope_type", "rope_theta", "factor"):
        assert again.rope_parameters.get(name) == expected.rope_parameters.get(name)
    assert read["torch_dtype"] == "bfloat16"
    # What a loader finds that knows one kind of names only, with its default.
    old = read.get("rope_scaling") or {}
    assert read.get("rope_theta", 1e4) == expected.rope_parameters["rope_theta"]
    assert old.get("factor") == expected.rope_parameters.get("factor")
    new = {key: value for key, value in read.items() if key not in ("rope_theta", "rope_scaling")}
    if "rope_parameters" in new:
        alone = LlamaConfig.from_dict(new).rope_parameters
        assert alone["rope_theta"] == expected.rope_parameters["rope_theta"]
        assert alone.get("factor") == expected.rope_parameters.get("factor")


def test_a_config_of_earlier_names_alone_keeps_them():
    values = {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}}
    assert portable(values, tied=True) == values | {"tie_word_embeddings": True}


ROPES = {
    "llama": ROPE | LLAMA3 | {"rope_type": "llama3"},
    "qwen2": ROPE | {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "phi": ROPE | {"partial_rotary_factor": 0.5},
    "gpt_neox": ROPE | {"partial_rotary_factor": 0.5},
    "gemma3_text": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 333.0},
    },
}


@pytest.mark.parametrize("architecture", ROPES)
def test_this_transformers_reads_the_same_from_both_names(architecture, base, tmp_path):
    own = {"rope_parameters": ROPES[architecture]}
    if architecture == "gemma3_text":
        own |= {"layer_types": ["sliding_attention", "full_attention"]}
    folder = pico.make_base(tmp_path / "model", architecture, **own)
    model = load_model(str(folder))
    save_model(model, load_tokenizer(str(folder)), tmp_path / "out")
    values = json.loads((tmp_path / "out/config.json").read_text())
    assert values["rope_theta"] == 5e5
    ids = (torch.arange(5, 105) * 7 % 300)[None]
    with torch.no_grad():
        assert torch.equal(load_model(str(tmp_path / "out"))(ids).logits, model(ids).logits)
