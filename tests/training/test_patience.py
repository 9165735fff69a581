"""Early stopping of real trainings: on a validation loss that falls and then rises."""

import json
from dataclasses import replace as but

import pytest
import torch
from safetensors.torch import load_file

from tasc.errors import InputError
from tasc.training.base import train_base
from tasc.training.draft_head import train_head
from tasc.training.finetuned import Start
from tasc.training.train import finetune
from tests.cli import tasc
from tests.options import FOURS, SHORT_ANSWERS, BaseOptions, FinetuneOptions, HeadOptions, replace
from tests.training.runs import stop_after
from tests.training.samples import OPTIONS, ROWS, contrary, corpus

STOPPING = replace(OPTIONS, adapter="none", epochs=12.0, learning_rate=1e-2, patience=2)


def weights(result):
    return {name: held.detach() for name, held in result.model.named_parameters()}


@pytest.fixture(scope="module")
def alone(base, augmented, tmp_path_factory):
    start = Start(str(base), str(augmented), ROWS)
    return finetune(start, corpus(2), contrary(), STOPPING, work=tmp_path_factory.mktemp("work"))


def test_a_training_that_learns_too_much_stops_and_says_what_is_kept(alone):
    report = alone.report
    losses = {e.step: e.loss for e in report.evaluations}
    assert min(losses, key=lambda step: losses[step]) == report.kept_step
    assert report.kept_step == report.steps - 2 * 5  # epochs of five steps
    assert report.stopped_early
    told = json.loads(json.dumps(report.to_dict()))
    assert (told["kept_step"], told["stopped_early"]) == (report.kept_step, True)


def test_it_keeps_what_a_training_without_patience_had_by_then(start, alone, tmp_path):
    kept = alone.report.kept_step
    endless = replace(STOPPING, patience=None, checkpoint_steps=kept)
    with pytest.raises(KeyboardInterrupt):
        finetune(start, corpus(2), contrary(), endless, work=tmp_path, progress=stop_after(kept))
    state = load_file(sorted(tmp_path.glob("step-*"))[-1] / "state.safetensors")
    for name, held in weights(alone).items():
        assert torch.equal(state[f"parameter/{name}"], held), name


@pytest.mark.slow
def test_two_processes_stop_and_keep_alike_and_go_on_when_killed(start, alone, tmp_path):
    both = replace(STOPPING, processes=2)
    whole = finetune(start, corpus(2), contrary(), both, work=tmp_path / "whole")
    assert whole.report.kept_step == alone.report.kept_step
    assert whole.report.steps == alone.report.steps
    assert whole.report.stopped_early
    for name, held in weights(whole).items():
        torch.testing.assert_close(held, weights(alone)[name], atol=1e-3, rtol=0)
    cut = alone.report.kept_step + 4  # the best are of a checkpoint by then
    with pytest.raises(KeyboardInterrupt):
        finetune(
            start, corpus(2), contrary(), both, work=tmp_path / "cut", progress=stop_after(cut)
        )
    again = finetune(start, corpus(2), contrary(), both, work=tmp_path / "cut", resume=True)
    assert but(again.report, seconds=0.0) == but(whole.report, seconds=0.0)
    for name, held in weights(again).items():
        assert torch.equal(held, weights(whole)[name]), name


def test_a_draft_head_stops_too(base, tmp_path):
    options = HeadOptions(epochs=40.0, learning_rate=3e-2, patience=1, **FOURS, **SHORT_ANSWERS)
    report = train_head(str(base), corpus(), contrary(), options, work=tmp_path).report
    assert report.stopped_early
    best = min(report.evaluations, key=lambda e: (-round(e.exact, 2), e.loss))
    assert best.step == report.kept_step < report.steps


def test_patience_without_validation_is_refused_before_anything_is_loaded(tmp_path):
    said = "has no split 'validation' besides 'train': name one with --validation, or leave out"
    nowhere = Start("nowhere", "nowhere")
    with pytest.raises(InputError, match=said):
        finetune(nowhere, corpus(), None, FinetuneOptions(patience=1), work=tmp_path)
    with pytest.raises(InputError, match=said):
        train_head("nowhere", corpus(), None, HeadOptions(patience=1), work=tmp_path)
    with pytest.raises(InputError, match=said):
        train_base(corpus(), None, BaseOptions(patience=1), work=tmp_path)
    with pytest.raises(InputError, match="patience needs a validation split: name one"):
        FinetuneOptions(patience=1, validation=None)


def test_the_command_line_says_what_to_type_and_what_was_kept(capsys, base, tmp_path):
    rows = [f'{{"input": "say {i % 5}", "output": "word {i % 5}"}}' for i in range(30)]
    data = tmp_path / "task"
    data.mkdir()
    (data / "train.jsonl").write_text("\n".join(rows))
    learn = ("--model", base, "--adapter", "none", "--learning-rate", 3e-2, "--patience", 1)
    given = ("finetune", data, *learn, "--effective-batch", 8, "--epochs", 40)
    code, _, err = tasc(capsys, *given, "--output", tmp_path / "out")
    assert code == 2
    assert err.startswith("error: --patience needs a validation split")
    assert err.count("\n") == 1
    others = [f'{{"input": "say {i % 5}", "output": "word {(i + 1) % 5}"}}' for i in range(10)]
    (data / "validation.jsonl").write_text("\n".join(others))
    code, out, err = tasc(capsys, *given, "--output", tmp_path / "out")
    assert code == 0, err
    told = json.loads((tmp_path / "out/training.json").read_text())
    assert told["stopped_early"]
    kept = next(e["loss"] for e in told["evaluations"] if e["step"] == told["kept_step"])
    assert f"validation loss {kept:.3f}" in out
    assert f"stopped early, kept the weights of step {told['kept_step']}" in out
    assert (
        f"Weights of step {told['kept_step']}, which had"
        in (tmp_path / "out/model/README.md").read_text()
    )
