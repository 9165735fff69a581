import json

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from cli.commands.finetune import show
from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.training.finetuned import Start
from tasc.training.folder import save_model, save_tokenizer
from tasc.training.train import finetune
from tests import pico
from tests.options import replace
from tests.seeds import SEED
from tests.training import samples
from tests.training.runs import assert_close
from tests.training.samples import Row, corpus

OPTIONS = replace(samples.OPTIONS, quantize="nf4", dtype="auto", rank=4, alpha=4)


@pytest.fixture(scope="module")
def result(start, tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    return finetune(start, corpus(2), corpus(1, first=12), OPTIONS, work=work)


def test_training_lowers_the_loss_on_held_out_examples(result):
    first, last = result.report.evaluations
    assert last.loss < first.loss
    assert result.report.trainable_parameters < result.report.total_parameters / 4
    assert json.loads(json.dumps(result.report.to_dict()))["steps"] == 10


def test_a_training_says_how_many_examples_it_cut(result, capsys):
    show(result.report)
    assert "too long" not in capsys.readouterr().out
    show(result.report.model_copy(update={"cut_examples": 1234}))
    assert "1,234 examples were too long and lost text" in capsys.readouterr().out


def test_vanilla_transformers_loads_the_merged_model_and_its_tokenizer(result, tmp_path):
    result.save_merged(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert model.config.vocab_size == model.get_input_embeddings().weight.shape[0] == 322
    assert model.dtype == torch.float32
    assert tokenizer("intent: alarm, slot fills:").input_ids == [320, 321]
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == 0
    assert_close(model, result.model, torch.tensor([[1, 320, 7, 321]]), 0.05)  # bfloat16 compute


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_peft_alone_loads_the_adapter(result, base, tmp_path):
    result.save_adapter(tmp_path)
    assert {p.suffix for p in tmp_path.iterdir()} == {".json", ".safetensors"}
    model = AutoModelForCausalLM.from_pretrained(base)
    model.resize_token_embeddings(len(AutoTokenizer.from_pretrained(tmp_path)))
    model = PeftModel.from_pretrained(model, tmp_path)
    ids = torch.tensor([[320, 321, 5]])
    with torch.no_grad():
        rows = model.get_input_embeddings()(ids)
        assert torch.equal(rows[0, :2], result.model.get_input_embeddings()(ids)[0, :2])


def test_the_seed_decides_the_result(result, start, tmp_path):
    other = finetune(start, corpus(2), None, replace(OPTIONS, seed=SEED + 1), work=tmp_path)
    assert other.report.losses != result.report.losses
    assert other.report.evaluations == ()


def test_a_tokenizer_of_another_model_is_refused(base, augmented, tmp_path):
    with pytest.raises(InputError, match="322 tokens, but the model has 320 embedding rows"):
        finetune(Start(str(base), str(augmented)), corpus(), None, OPTIONS, work=tmp_path)


def test_new_tokens_of_another_tokenizer_are_refused(base, tmp_path):
    start = Start(str(base), str(base), [Row(400, (1, 2))])
    with pytest.raises(InputError, match="create the new tokens for this tokenizer"):
        finetune(start, corpus(), None, OPTIONS, work=tmp_path)


@pytest.mark.parametrize("architecture", pico.ARCHITECTURES)
@pytest.mark.parametrize("stated", ["PreTrainedTokenizerFast", "Qwen2Tokenizer"])
def test_auto_tokenizer_reads_an_augmented_tokenizer_beside_any_architecture(
    augmented, tmp_path, architecture, stated
):
    """transformers rebuilds Qwen2's tokenizer from vocabulary and merges unless it is stopped."""
    loaded = load_tokenizer(str(augmented))
    config = json.loads(loaded.files["tokenizer_config.json"]) | {"tokenizer_class": stated}
    files = {"tokenizer_config.json": json.dumps(config).encode()}
    tokenizer = LoadedTokenizer(loaded.tokenizer, loaded.path, files)
    save_model(pico.build_model(architecture), tokenizer, tmp_path)
    read = AutoTokenizer.from_pretrained(tmp_path)
    assert read("intent: alarm, slot fills:").input_ids == [320, 321]
    assert read.eos_token_id == 0


def test_a_tokenizer_that_is_read_as_it_is_keeps_its_configuration(base, tmp_path):
    loaded = load_tokenizer(str(base))
    save_tokenizer(loaded, tmp_path)
    kept = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert kept == json.loads(loaded.files["tokenizer_config.json"])


@pytest.mark.parametrize("stated", [[], 3, {"a": 1}])
def test_a_tokenizer_class_that_is_no_name_is_replaced_by_one(base, tmp_path, stated):
    loaded = load_tokenizer(str(base))
    files = {"tokenizer_config.json": json.dumps({"tokenizer_class": stated}).encode()}
    save_tokenizer(LoadedTokenizer(loaded.tokenizer, loaded.path, files), tmp_path)
    assert isinstance(AutoTokenizer.from_pretrained(tmp_path).eos_token_id, int | None)


def test_code_that_a_tokenizer_names_is_neither_run_nor_asked_about(base, tmp_path, monkeypatch):
    tokenizer = load_tokenizer(str(base))
    code = {"AutoTokenizer": ["them--code.Theirs", None]}
    named = {"tokenizer_class": "Theirs", "auto_map": code}
    tokenizer.files["tokenizer_config.json"] = json.dumps(named).encode()
    asked = []
    monkeypatch.setattr("builtins.input", lambda *question: asked.append(question) or "n")
    save_tokenizer(tokenizer, tmp_path / "saved")
    written = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())
    assert written["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert asked == []
