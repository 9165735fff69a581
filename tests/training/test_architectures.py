"""Adapters on what a model really has: mixtures of experts, GPT-2's layers; others are refused."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    GenerationConfig,
)

from tasc.data.corpus import Example
from tasc.errors import InputError, TascError
from tasc.models.embeddings import extend_embeddings, per_layer_table
from tasc.models.folder.files import weight_files
from tasc.models.load import load_model
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.adapters import lora
from tasc.training.adapters.options import AdapterOptions
from tasc.training.draft_head import train_head
from tasc.training.folder import save_model
from tests import pico
from tests.cli import printed, refused, tasc
from tests.options import HeadOptions
from tests.recipes import write
from tests.training.runs import assert_close
from tests.training.samples import ROWS, corpus
from tests.training.test_lora import disturb

IDS = torch.tensor([[1, 2, 3, 30, 21, 5, 9, 32]])


def make(folder, kind):
    """A model whose weights are as small as those of trained ones, so that 8 bits hold them."""
    config = pico.build_model(kind).config
    config.initializer_range = 0.02
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture
def task(tmp_path):
    rows = [{"input": f"number {i}", "output": f"value {i % 3}"} for i in range(8)]
    return write(tmp_path / "task.jsonl", rows)


@pytest.mark.parametrize("kind", ["mixtral", "gpt2", "mamba2"])
@pytest.mark.parametrize(
    ("quantize", "off"),
    [("none", 1e-4), ("nf4", 1e-4), ("8bit", 0.02)],  # 8bit rounds what a layer reads, too
)
def test_the_merged_model_computes_what_the_adapter_model_does(tmp_path, kind, quantize, off):
    folder = make(tmp_path, kind)
    model = load_model(str(folder), dtype="float32", quantize=quantize)
    model = lora.attach(model, [], AdapterOptions(rank=4)).eval()
    disturb(model)
    merged = load_model(str(folder), dtype="float32")
    lora.merge_into(model, merged)
    assert_close(merged, model, IDS, off)


@pytest.mark.parametrize("kind", ["mixtral", "gpt2"])
def test_finetune_trains_and_merges_it_and_says_nothing_else(capsys, tmp_path, task, kind):
    model, out = pico.make_base(tmp_path / "model", kind), tmp_path / "out"
    options = ("--model", model, "--epochs", 1, "--merge", "--output", out)
    code, _, err = tasc(capsys, "finetune", task, *options)
    assert (code, err) == (0, "")
    load_model(str(out / "model"))


def test_a_draft_head_of_a_model_with_a_state_is_refused_in_one_line(capsys, tmp_path, task):
    model, out = pico.make_base(tmp_path / "model", "mamba"), tmp_path / "out"
    refused(capsys, "finetune", task, "--model", model, "--draft-head", "--output", out)
    assert not out.exists()


@pytest.mark.parametrize(
    "kind", ["lfm2", "qwen3_next", "qwen3_5_text", "falcon_h1", "mamba2", "gemma4_text"]
)
def test_adapters_and_new_rows_of_every_table_learn_and_merge(kind):
    model = pico.build_model(kind)
    extend_embeddings(model, ROWS, 322)
    plain = copy.deepcopy(model)
    adapted = lora.attach(model, [320, 321], AdapterOptions(rank=4, alpha=8, dropout=0.0))
    ids = torch.tensor([[1, 2, 320, 321, 5]])
    adapted(input_ids=ids, labels=ids).loss.backward()
    for name, parameter in adapted.named_parameters():
        assert parameter.grad is not None or not parameter.requires_grad, name
    disturb(adapted)
    lora.merge_into(adapted, plain)
    assert_close(plain.eval(), adapted.eval(), ids, 1e-4)


def test_the_table_that_every_layer_reads_grows_too():
    model = pico.build_model("gemma4_text")
    extend_embeddings(model, ROWS[:1], 330)
    table = per_layer_table(model)
    assert table is not None
    assert table.num_embeddings == 330
    torch.testing.assert_close(table.weight[320], table.weight[5:7].mean(0))


# The smallest towers: hidden sizes and depths by the names of each configuration.
VISION = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "patch_size": 4}
MULTIMODAL: dict[str, tuple[str, dict[str, int]]] = {
    "qwen3_5": ("qwen3_5_text", {"depth": 1, "num_heads": 2, "out_hidden_size": 64}),
    "gemma3": ("gemma3_text", {"num_hidden_layers": 1, "image_size": 16}),
}


@pytest.mark.parametrize("kind", MULTIMODAL)
def test_a_grown_model_keeps_vision_and_the_weights_that_only_engines_read(kind, tmp_path):
    text, vision = MULTIMODAL[kind]
    folder, out = pico.make_tokenizer(tmp_path / "model"), tmp_path / "out"
    inner = pico.build_model(text, layers=2).config.to_dict()
    parts = {"text_config": inner, "vision_config": VISION | vision}
    config = AutoConfig.for_model(kind, **parts, tie_word_embeddings=True)
    AutoModelForImageTextToText.from_config(config).save_pretrained(folder)
    before = load_file(folder / "model.safetensors")
    if kind == "qwen3_5":
        before["mtp.fc.weight"] = torch.ones(4, 8)
        save_file(before, folder / "model.safetensors", {"format": "pt"})
    model = load_model(str(folder))
    extend_embeddings(model, ROWS[:1], 321)
    save_model(model, load_tokenizer(str(folder)), out)
    after = {name: x for file in weight_files(out) for name, x in load_file(file).items()}
    assert not [name for name, x in before.items() if not torch.equal(x, after[name][: len(x)])]
    ids = torch.arange(5, 15)[None]
    whole = AutoModelForImageTextToText.from_pretrained(out)
    with torch.no_grad():
        expected = model(ids).logits
        torch.testing.assert_close(load_model(str(out))(ids).logits, expected)
        torch.testing.assert_close(whole(input_ids=ids).logits, expected)


def test_gpt2_is_saved_as_it_was_trained_and_not_with_biases_of_its_checkpoint(tmp_path):
    model = load_model(str(pico.make_base(tmp_path / "model", "gpt2")))
    disturb(model.requires_grad_(True))
    save_model(model, load_tokenizer(str(tmp_path / "model")), tmp_path / "out")
    torch.testing.assert_close(load_model(str(tmp_path / "out")).state_dict(), model.state_dict())


def test_a_draft_head_is_not_trained_beyond_the_models_512_positions(base, tmp_path):
    text = "turn on the lamp " * 200
    one = replace(corpus(), examples=(Example(text, "on", text),))
    options = HeadOptions(max_length=1024, max_new_tokens=8, epochs=1, device="cpu")
    report = train_head(str(base), one, None, options, work=tmp_path).report
    assert 504 < report.tokens <= 512


def test_answers_as_long_as_the_models_positions_are_refused(base, tmp_path):
    options = HeadOptions(max_length=1024, max_new_tokens=512)
    with pytest.raises(InputError, match="below the model's 512 positions, got 512"):
        train_head(str(base), corpus(), None, options, work=tmp_path)


@pytest.mark.parametrize("stated", [{}, {"do_sample": False, "temperature": 0.6}])
def test_end_tokens_are_kept_where_generation_config_cannot_save_itself_too(tmp_path, stated):
    folder = pico.make_base(tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 4]} | stated))
    save_model(load_model(str(folder)), load_tokenizer(str(folder)), tmp_path / "out")
    saved = GenerationConfig.from_pretrained(tmp_path / "out")
    assert saved.eos_token_id == [0, 3, 4]


def test_the_adapter_of_finetune_given_as_a_model_gets_one_helpful_line(
    capsys, base, tmp_path, task
):
    out = tmp_path / "out"
    printed(capsys, "finetune", task, "--model", base, "--epochs", 1, "--output", out)
    for given in (out, out / "adapter"):
        assert "--merge" in refused(capsys, "bench", task, "--split", "train", "--model", given)
    with pytest.raises(TascError, match="--merge"):
        load_model(str(out / "adapter"))


def test_routers_of_experts_are_not_adapted():
    model = pico.build_model("phimoe", num_local_experts=4, num_experts_per_tok=2)
    adapted = lora.attach(model, [], AdapterOptions(rank=4))
    assert adapted(input_ids=IDS).logits.isfinite().all()


def test_the_clamped_layers_of_gemma_3n_train_in_4_bits(tmp_path):
    own: dict[str, Any] = {"head_dim": 16, "laurel_rank": 8, "hidden_size_per_layer_input": 16}
    own |= {"layer_types": ["sliding_attention", "full_attention"], "num_kv_shared_layers": 0}
    own |= {"activation_sparsity_pattern": [0.0, 0.0], "vocab_size_per_layer_input": 320}
    folder = pico.make_model(tmp_path, "gemma3n_text", **own)
    adapted = lora.attach(load_model(str(folder), quantize="nf4"), [], AdapterOptions(rank=4))
    assert adapted.train()(input_ids=IDS).logits.isfinite().all()
