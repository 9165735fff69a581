"""Base models, new tokens and adapters through the command line."""

import json

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.chain.conftest import LIMIT
from tests.cli import done
from tests.seeds import SEED


def test_base_trains_a_model_that_transformers_loads(base):
    assert json.loads((base / "training.json").read_text())["steps"] > 0
    model = AutoModelForCausalLM.from_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(base)
    assert model.config.model_type == "qwen2"
    text = "wake me up at five am"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_analyze_predicts_what_augment_reaches(capsys, massive, base, augmented, tmp_path):
    analysis = done(
        capsys,
        *("analyze", massive, "--tokenizer", base, "--budget", 0, "--budget", 40),
        *("--limit", LIMIT, "--seed", SEED, "--output", tmp_path / "out"),
    )
    augmentation = json.loads((augmented / "augmentation.json").read_text())
    points = {p["budget"]: p for p in analysis["budgets"]}
    train = augmentation["train"]["tokens_per_output"]
    assert points[0]["tokens_per_output"] == pytest.approx(train["before"])
    assert points[40]["added"] == augmentation["added"]
    assert train["reached"] == pytest.approx(points[40]["tokens_per_output"], rel=0.02)
    assert augmentation["held_out"]["ratio"] > 1.5


def test_an_augmented_folder_loads_in_transformers_and_lists_its_merges(augmented, massive):
    tokenizer = AutoTokenizer.from_pretrained(augmented)
    merges = json.loads((augmented / "merges.json").read_text())["merges"]
    assert len(merges) == 40
    assert {"ids", "new_id", "string", "frequency", "reward", "pcs"} <= set(merges[0])
    rows = [json.loads(line) for line in (massive / "test.jsonl").read_text().splitlines()[:200]]
    produced = set()
    for row in rows:
        ids = tokenizer(row["output"], add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == row["output"]
        produced |= set(ids)
    assert produced & {m["new_id"] for m in merges}


def test_finetune_with_new_tokens_writes_adapter_and_plain_model(plain, tasc_ft):
    for folder in (plain, tasc_ft):
        result = json.loads((folder / "training.json").read_text())
        assert result["trainable_parameters"] < result["total_parameters"]
    assert (tasc_ft / "adapter" / "adapter_model.safetensors").is_file()
    model = AutoModelForCausalLM.from_pretrained(tasc_ft / "model")
    tokenizer = AutoTokenizer.from_pretrained(tasc_ft / "model")
    assert model.get_input_embeddings().weight.shape[0] >= len(tokenizer)


def test_what_finetune_wrote_is_a_tokenizer_to_augment(capsys, massive, plain, tmp_path):
    augment = ("augment", massive, "--tokenizer", plain, "--budget", 5, "--limit", LIMIT)
    tokens = done(capsys, *augment, "--output", tmp_path / "out")["train"]["tokens_per_output"]
    assert tokens["reached"] < tokens["before"]
