"""Patience in the training loop: when it stops, and which weights it leaves."""

from dataclasses import replace

import pytest
import torch

from tasc.training.core.schedule import Evaluation, Journal
from tests.training.runs import SCHEDULE, start, stop_after, weights

STOPPING = replace(SCHEDULE, epochs=8.0, patience=2, checkpoint_steps=2)


def rising(run, losses=(3.0, 1.0, 2.0, 1.0, 0.5)):
    """Let a run find these validation losses, by the number of its evaluation, and no others."""

    def score(*_arguments, **_options):
        number = len(run.journal.evaluations)
        return Evaluation(step=_arguments[2], loss=losses[number], exact=0.0)

    run.evaluate = score
    return run


def weights_after(data, work, steps):
    """Weights of a run that has no patience, after so many of its steps."""
    seen = {}
    run = start(data, work, replace(STOPPING, patience=None, checkpoint_steps=0))

    def look(_description, done, _total):
        if done == steps:
            seen.update(weights(run))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train(progress=look)
    return seen


def test_patience_stops_and_leaves_the_weights_of_the_lowest_loss(data, tmp_path):
    run = rising(start(data, tmp_path / "a", STOPPING))
    report = run.train(data)
    # A loss as low as the lowest is no lower one: 1.0 at step 6, then 2.0 and 1.0.
    assert [e.step for e in report.evaluations] == [3, 6, 9, 12]
    assert (report.steps, report.kept_step, report.stopped_early) == (12, 6, True)
    expected = weights_after(data, tmp_path / "b", 6)
    assert all(torch.equal(held, expected[name]) for name, held in weights(run).items())
    assert not run.model.training


def test_the_learning_rate_falls_as_if_the_run_went_on(data, tmp_path):
    run = rising(start(data, tmp_path, STOPPING))
    run.train(data)
    assert run.steps == 24
    assert run.optimizer.param_groups[0]["lr"] == 1e-3 * STOPPING.rate(11, 11 / 24)


def test_patience_that_lasts_leaves_the_lowest_loss_too(data, tmp_path):
    short = replace(STOPPING, epochs=3.0)
    report = rising(start(data, tmp_path / "a", short)).train(data)
    assert (report.steps, report.kept_step, report.stopped_early) == (9, 6, False)
    run = rising(start(data, tmp_path / "b", short), (3.0, 2.0, 1.0))
    report = run.train(data)
    assert (report.steps, report.kept_step, report.stopped_early) == (9, 9, False)


def test_without_patience_the_last_weights_are_kept(data, tmp_path):
    report = rising(start(data, tmp_path, replace(STOPPING, epochs=3.0, patience=None))).train(data)
    assert (report.steps, report.kept_step, report.stopped_early) == (9, 9, False)


@pytest.mark.parametrize("stop", [4, 7, 8, 11, 12])
def test_a_resumed_run_keeps_the_same_best_weights(data, tmp_path, stop):
    whole = rising(start(data, tmp_path / "whole", STOPPING))
    report = whole.train(data)
    with pytest.raises(KeyboardInterrupt):
        rising(start(data, tmp_path / "cut", STOPPING)).train(data, progress=stop_after(stop))
    second = rising(start(data, tmp_path / "cut", STOPPING))
    again = second.train(data, resume=True)
    assert replace(again, seconds=0.0) == replace(report, seconds=0.0)
    expected = weights(whole)
    assert all(torch.equal(held, expected[name]) for name, held in weights(second).items())
    kept = {p.suffix for p in (tmp_path / "cut").rglob("*") if p.is_file()}
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
