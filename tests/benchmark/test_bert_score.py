"""BERTScore: what the package computes, of a tiny model made here."""

import json
import sys
import warnings

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    RobertaTokenizer,
)

from tasc.benchmark.metrics import find, score
from tasc.benchmark.metrics.bert import BertScore
from tasc.benchmark.options import BenchOptions
from tasc.errors import InputError
from tasc.models.folder.quiet import quiet

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "far", "away"]
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 66,
}
KINDS = {"bert": (BertConfig, BertModel), "roberta": (RobertaConfig, RobertaModel)}


@pytest.fixture(params=KINDS)
def model(request, tmp_path):
    """A folder with a model of random weights, whose tokenizer does not say how much it reads."""
    vocabulary = {word: i for i, word in enumerate([*SPECIAL.values(), *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    config, kind = KINDS[request.param]
    torch.manual_seed(0)
    folder = tmp_path / "model"
    with quiet():
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL).save_pretrained(folder)
        kind(config(vocab_size=len(vocabulary), pad_token_id=0, **SHAPE)).save_pretrained(folder)
    return folder


OUTPUTS = ["the cat sat", "a dog ran far away", "on the mat", "cat", "", " "]
REFERENCES = ["the dog sat", "a dog ran far away", "on a mat", "mat the far", "the", "cat"]


@pytest.mark.parametrize("layer", [1, 3])
def test_it_is_what_the_package_computes(model, layer):
    package = pytest.importorskip("bert_score")
    name = f"bert_score:model={model},layer={layer}"
    found: np.ndarray = find(name).count(OUTPUTS, REFERENCES, ";")
    with quiet():
        scorer = package.BERTScorer(model_type=str(model), num_layers=layer)
    scorer._tokenizer.model_max_length = 64  # its own fails: no integer holds it
    expected = scorer.score(OUTPUTS[:4], REFERENCES[:4])[2]
    assert found.shape == (6, 2)
    assert found.dtype == np.float64
    assert found[:4, 0] == pytest.approx(expected.numpy(), abs=1e-6)
    assert found[1, 0] == pytest.approx(1, abs=1e-6)
    assert len({*found[:4, 0].round(4)}) == 4
    assert found[4:].tolist() == [[0, 1], [0, 1]]
    mean = found[:, 0].mean()
    assert score([name], OUTPUTS, REFERENCES, ";")[name] == pytest.approx(mean)


def test_the_last_layer_is_taken_where_none_is_named(model):
    pytest.importorskip("bert_score")
    counts = [
        find(f"bert_score:model={model}{layer}").count(OUTPUTS, REFERENCES, ";").tolist()
        for layer in ("", ",layer=3", ",layer=2")
    ]
    assert counts[0] == counts[1] != counts[2]


def test_a_bench_takes_it_and_a_folder_that_cannot_be_read_is_one_line(model, tmp_path):
    pytest.importorskip("bert_score")

    def asked(metric):
        return BenchOptions(source="builtin:stdlib-docs", models=("m",), metrics=(metric,))

    name = f"bert_score:model={model}"
    assert asked(name).metrics == (name,)
    for wrong, why in {
        "bert_score": "bert_score:model=DIR",
        "bert_score:": "give the folder",
        f"{name},layer=x": "give the folder",
        f"bert_score:layer=1,model={model}": "give the folder",
        f"{name},layer=4": "has 3 layers, not 4",
        f"bert_score:model={tmp_path}/none": "folder: bert_score does not download models",
        "bert_score:model=roberta-large": "no such folder",
        "exact_match:model=x": "unknown metric 'exact_match:model=x'",
    }.items():
        with pytest.raises(InputError, match=why):
            asked(wrong)
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(InputError, match="no safetensors weights"):
        asked(name)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_that_comes_with_a_model_is_refused(model, file):
    held = json.loads((model / file).read_text())
    (model / file).write_text(json.dumps(held | {"auto_map": {"AutoModel": "mine.Model"}}))
    with pytest.raises(InputError, match="contains code, which tasc does not run"):
        find(f"bert_score:model={model}").ready()


def test_a_text_longer_than_the_model_reads_is_cut_where_its_tokenizer_says_so(model):
    pytest.importorskip("bert_score")
    told = model / "tokenizer_config.json"
    told.write_text(json.dumps(json.loads(told.read_text()) | {"model_max_length": 16}))
    counts = find(f"bert_score:model={model}").count(["the cat " * 50], ["the cat " * 60], ";")
    assert counts[0, 0] == pytest.approx(1, abs=1e-6)


def test_the_first_word_of_roberta_is_one_with_a_space_before_it(tmp_path):
    pytest.importorskip("bert_score")
    letters = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *"Ġcat"]
    with quiet():
        RobertaTokenizer(vocab={c: i for i, c in enumerate(letters)}, merges=[]).save_pretrained(
            tmp_path
        )
        shape = RobertaConfig(vocab_size=len(letters), pad_token_id=1, **SHAPE)
        RobertaModel(shape).save_pretrained(tmp_path)
    tokenizer = BertScore(str(tmp_path)).scorer._tokenizer
    assert isinstance(tokenizer, RobertaTokenizer)
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("cat")) == [*("<s>", *"Ġcat", "</s>")]


def test_it_says_nothing(model, capfd):
    pytest.importorskip("bert_score")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find(f"bert_score:model={model}").count(OUTPUTS, REFERENCES, ";")
    assert capfd.readouterr() == ("", "")
    assert "bert_score" in sys.modules


def test_two_models_head_two_columns():
    labels = [find(f"bert_score:model={name}").label for name in ("/a/bert", "b,layer=3")]
    assert labels == ["BERTScore (bert)", "BERTScore (b, layer 3)"]
