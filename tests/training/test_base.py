from itertools import count

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from cli.commands.base import show
from tasc.errors import UnavailableError
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.base import PRESETS, build, train_base
from tests.options import BaseOptions, replace
from tests.training.runs import assert_same, resumed
from tests.training.samples import corpus

OPTIONS = BaseOptions(
    preset="pico",
    vocabulary=320,
    epochs=12.0,
    block=64,
    batch_blocks=2,
    checkpoint_steps=10,
    device="cpu",
)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return train_base(corpus(2), corpus(), OPTIONS, work=tmp_path_factory.mktemp("work"))


def test_training_lowers_the_loss_on_whole_documents(result):
    evaluations = result.report.evaluations
    assert len(evaluations) == 12
    assert evaluations[-1].loss < 0.7 * evaluations[0].loss
    assert result.report.trainable_parameters == result.report.total_parameters


def test_a_vocabulary_that_the_texts_do_not_fill_is_told(result, capsys):
    assert result.report.vocabulary == 311
    show(result.report)
    assert "the tokenizer has 311 tokens, not 320" in capsys.readouterr().out
    for enough in (311, None):
        show(result.report.model_copy(update={"vocabulary_wanted": enough}))
        assert "no more pairs" not in capsys.readouterr().out


def test_vanilla_transformers_loads_and_runs_the_folder(result, tmp_path):
    result.save(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = corpus().prompts[0]
    inputs = tokenizer(text, return_tensors="pt")
    ours = load_tokenizer(str(tmp_path)).encode([text])
    assert inputs.input_ids[0].tolist() == ours.tokens.tolist()
    out = model.generate(**inputs, max_new_tokens=3, do_sample=False)
    assert out.shape[1] > inputs.input_ids.shape[1]
    assert model.config.model_type == "qwen2"
    assert model.config.tie_word_embeddings
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == 0
    assert tokenizer.decode(inputs.input_ids[0]) == text


def test_a_resumed_run_ends_with_the_very_same_weights(result, tmp_path):
    again = resumed(train_base, 25, corpus(2), corpus(), OPTIONS, work=tmp_path)
    assert again.report.losses == result.report.losses
    assert_same(again.model.state_dict(), result.model.state_dict())


def test_a_run_with_a_limit_of_minutes_stops_in_time(tmp_path, monkeypatch):
    ticks = count(0, 10)  # each look at the clock is ten seconds later
    monkeypatch.setattr("tasc.training.loop.time.monotonic", lambda: float(next(ticks)))
    options = replace(OPTIONS, epochs=1e6, minutes=1)
    report = train_base(corpus(2), None, options, work=tmp_path).report
    assert 1 < report.steps < 6
    assert report.seconds >= 60


@pytest.mark.parametrize(
    ("name", "millions"),
    [("pico", 0.1), ("tiny", 1.0), ("small", 4.5), ("medium", 28.0), ("large", 494.0)],
)
def test_presets_have_the_size_they_promise(name, millions):
    preset = PRESETS[name]
    with torch.device("meta"):
        model = build(preset, max(preset.vocabulary, preset.rows), 64, 0)
    size = sum(p.numel() for p in model.parameters()) / 1e6
    assert size == pytest.approx(millions, rel=0.1, abs=0.04)


def test_a_launcher_of_several_processes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UnavailableError, match="run it without a launcher"):
        train_base(corpus(), None, BaseOptions(), work=tmp_path)
