"""Early stopping: when a training stops, and which weights it leaves."""

import json
from dataclasses import replace as but

import pytest
import torch
from safetensors.torch import load_file

from tasc.errors import InputError
from tasc.training.base import train_base
from tasc.training.core.schedule import Journal
from tasc.training.draft_head import train_head
from tasc.training.finetuned import Start
from tasc.training.loop import Run
from tasc.training.train import finetune
from tests.cli import printed, refused
from tests.options import FOURS, SHORT_ANSWERS, BaseOptions, FinetuneOptions, HeadOptions, replace
from tests.recipes import write
from tests.training.runs import SCHEDULE, assert_same, interrupt, resumed, weights
from tests.training.runs import start as new_run
from tests.training.samples import OPTIONS, corpus

STOPPING = replace(OPTIONS, adapter="none", epochs=12.0, learning_rate=1e-2, patience=2)
SHORT = but(SCHEDULE, epochs=8.0, patience=2, checkpoint_steps=2)


def rising(run, losses=(3.0, 1.0, 2.0, 1.0, 0.5)):
    """Let a run find these validation losses, by the number of its evaluation, and no others."""

    run.evaluate = lambda *_, **_options: (losses[len(run.journal.evaluations)], 0.0)
    return run


def let_all_rise(monkeypatch):
    """Let every run find the losses of one that learns too much, however it learns."""
    init = Run.__init__

    def made(run, *arguments, **options):
        init(run, *arguments, **options)
        rising(run)

    monkeypatch.setattr(Run, "__init__", made)


@pytest.fixture
def all_rise(monkeypatch):
    let_all_rise(monkeypatch)


@pytest.fixture(scope="module")
def alone(start, tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        let_all_rise(monkeypatch)
        work = tmp_path_factory.mktemp("work")
        return finetune(start, corpus(2), corpus(), STOPPING, work=work)


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
    interrupt(finetune, kept, start, corpus(2), corpus(), endless, work=tmp_path)
    state = load_file(sorted(tmp_path.glob("step-*"))[-1] / "state.safetensors")
    for name, held in alone.model.named_parameters():
        assert torch.equal(state[f"parameters/{name}"], held), name


@pytest.mark.slow
@pytest.mark.usefixtures("all_rise")
def test_two_processes_stop_and_keep_alike_and_go_on_when_killed(start, alone, tmp_path):
    arguments = (start, corpus(2), corpus(), replace(STOPPING, processes=2))
    whole = finetune(*arguments, work=tmp_path / "whole")
    assert whole.report.kept_step == alone.report.kept_step
    assert whole.report.steps == alone.report.steps
    assert whole.report.stopped_early
    for ours, theirs in zip(whole.model.parameters(), alone.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=0)
    cut = alone.report.kept_step + 4  # the best are of a checkpoint by then
    again = resumed(finetune, cut, *arguments, work=tmp_path / "cut")
    assert again.report.to_dict() | {"seconds": 0} == whole.report.to_dict() | {"seconds": 0}
    assert_same(again.model, whole.model)


@pytest.mark.usefixtures("all_rise")
def test_a_draft_head_stops_too(base, tmp_path):
    options = HeadOptions(epochs=40.0, patience=1, **FOURS, **SHORT_ANSWERS)
    report = train_head(str(base), corpus(), corpus(), options, work=tmp_path).report
    assert [evaluation.loss for evaluation in report.evaluations] == [3.0, 1.0, 2.0]
    assert (report.kept_step, report.steps, report.stopped_early) == (2 * 5, 3 * 5, True)


def test_patience_without_validation_is_refused_before_anything_is_loaded(tmp_path):
    said = "has no split 'validation' besides 'train': name one with --validation, or leave out"
    nowhere = Start("nowhere", "nowhere")
    with pytest.raises(InputError, match=said):
        finetune(nowhere, corpus(), None, FinetuneOptions(patience=1), work=tmp_path)
    with pytest.raises(InputError, match=said):
        train_head("nowhere", corpus(), None, HeadOptions(patience=1), work=tmp_path)
    with pytest.raises(InputError, match=said):
        train_base(corpus(), None, BaseOptions(patience=1), work=tmp_path)


@pytest.mark.usefixtures("all_rise")
def test_the_command_line_says_what_to_type_and_what_was_kept(capsys, base, tmp_path):
    rows = [{"input": f"say {i % 5}", "output": f"word {i % 5}"} for i in range(30)]
    data = write(tmp_path / "task/train.jsonl", rows).parent
    learn = ("--model", base, "--adapter", "none", "--patience", 1)
    given = ("finetune", data, *learn, "--effective-batch", 8, "--epochs", 40)
    line = refused(capsys, *given, "--output", tmp_path / "out")
    assert line.startswith("error: --patience needs a validation split")
    write(data / "validation.jsonl", rows[:10])
    out = printed(capsys, *given, "--output", tmp_path / "out")
    told = json.loads((tmp_path / "out/training.json").read_text())
    assert told["stopped_early"]
    assert "validation loss 1.000" in out
    assert f"stopped early, kept the weights of step {told['kept_step']}" in out
    card = (tmp_path / "out/model/README.md").read_text()
    assert f"Weights of step {told['kept_step']}, which had" in card


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    run = rising(new_run(data, tmp_path_factory.mktemp("whole"), SHORT))
    return run, run.train(data)


def test_patience_stops_and_leaves_the_weights_of_the_lowest_loss(whole, data, tmp_path):
    run, report = whole
    # A loss as low as the lowest is no lower one: 1.0 at step 6, then 2.0 and 1.0.
    assert [e.step for e in report.evaluations] == [3, 6, 9, 12]
    assert (report.steps, report.kept_step, report.stopped_early) == (12, 6, True)
    endless = new_run(data, tmp_path, but(SHORT, patience=None, checkpoint_steps=0))
    interrupt(endless.train, 6)
    assert_same(weights(run), weights(endless))
    assert not run.model.training
    # The learning rate falls as if the run went on.
    assert run.steps == 24
    assert run.optimizer.param_groups[0]["lr"] == 1e-3 * SHORT.rate(11, 11 / 24)


@pytest.mark.parametrize(
    ("patience", "losses", "kept"),
    [(2, (3.0, 1.0, 2.0), 6), (2, (3.0, 2.0, 1.0), 9), (None, (3.0, 1.0, 2.0), 9)],
)
def test_with_patience_to_the_end_the_lowest_loss_is_kept(data, tmp_path, patience, losses, kept):
    short = but(SHORT, epochs=3.0, patience=patience)
    report = rising(new_run(data, tmp_path, short), losses).train(data)
    assert (report.steps, report.kept_step, report.stopped_early) == (9, kept, False)


@pytest.mark.parametrize("stop", [4, 7, 8, 11, 12])
def test_a_resumed_run_keeps_the_same_best_weights(whole, data, tmp_path, stop):
    run, report = whole
    interrupt(rising(new_run(data, tmp_path, SHORT)).train, stop, data)
    second = rising(new_run(data, tmp_path, SHORT))
    again = second.train(data, resume=True)
    assert again.to_dict() | {"seconds": 0} == report.to_dict() | {"seconds": 0}
    assert_same(weights(second), weights(run))
    kept = {p.suffix for p in tmp_path.rglob("*") if p.is_file()}
    assert kept == {".safetensors", ".json"}


@pytest.mark.parametrize(
    ("results", "best"),
    [
        ([], 0),
        ([(2.0, 0.0), (1.0, 0.0), (1.0, 0.0), (1.5, 0.004)], 1),  # too small a difference
        ([(1.0, 0.50), (1.2, 0.61), (1.1, 0.61), (1.4, 0.60)], 2),
    ],
)
def test_the_best_evaluation_has_the_highest_exact_match_and_then_the_lowest_loss(results, best):
    evaluations = [{"step": i, "loss": loss, "exact": e} for i, (loss, e) in enumerate(results)]
    assert Journal(evaluations=evaluations).best == best
