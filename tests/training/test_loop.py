import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tasc.errors import InputError
from tasc.training import checkpoint
from tasc.training.checkpoint import Checkpoint
from tasc.training.core.schedule import Schedule
from tests.training.runs import SCHEDULE, assert_same, interrupt, note_steps, start, weights

STATE = Checkpoint(1, {"w": torch.ones(2)}, {}, {})


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """A finished run, its report, what it told of its progress, and whether it drew numbers."""
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    seen = []
    run = start(data, tmp_path_factory.mktemp("whole"))
    report = run.train(data, progress=lambda *told: seen.append(told))
    return run, report, seen, not torch.equal(torch.rand(1), expected)


def test_training_lowers_the_loss_and_counts_what_it_read(whole, data):
    _, report, seen, drew = whole
    assert not drew, "training leaves the global generator alone"
    kinds = [description.partition(",")[0] for description, _, _ in seen]
    assert kinds == ["training", *["training", "training", "validating", "training"] * 2]
    assert seen[3] == ("validating", 0, len(data))
    assert report.steps == len(report.losses) == 6
    assert report.tokens == 2 * len(data.tokens)
    assert report.targets == 2 * int(data.targets.sum())
    assert [e.step for e in report.evaluations] == [3, 6]
    assert report.evaluations[1].loss < report.evaluations[0].loss


@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_a_resumed_run_ends_with_the_very_same_weights(whole, data, tmp_path, stop):
    run, report, *_ = whole
    interrupt(start(data, tmp_path).train, stop, data)
    seen = []
    second = start(data, tmp_path)
    again = second.train(data, resume=True, progress=note_steps(seen))
    at = stop // 2 * 2
    assert seen[:2] == [at, at + 1]  # it went on where the last checkpoint was
    assert again.losses == report.losses
    assert again.evaluations == report.evaluations
    assert again.tokens == report.tokens
    assert_same(weights(second), weights(run))


def test_a_finished_run_resumes_without_a_step(whole, data):
    run, report, *_ = whole
    seen = []
    second = start(data, run.work)
    again = second.train(data, resume=True, progress=note_steps(seen))
    assert seen == [6]
    assert again.losses == report.losses
    assert_same(weights(second), weights(run))


def test_a_checkpoint_that_was_not_finished_is_none(tmp_path):
    for name in ("step-1", "step-2", "step-3.tmp"):
        (tmp_path / name).mkdir()
    assert [p.name for p in checkpoint._folders(tmp_path)] == ["step-2", "step-1"]


def test_without_resume_old_checkpoints_are_not_used(data, tmp_path):
    interrupt(start(data, tmp_path).train, 3)
    seen = []
    start(data, tmp_path).train(progress=note_steps(seen))
    assert seen == [0, 1, 2, 3, 4, 5, 6]


def test_a_cut_checkpoint_falls_back_to_the_one_before(whole, data, tmp_path):
    interrupt(start(data, tmp_path).train, 5, data)
    newest = sorted(tmp_path.glob("step-*"))[-1] / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:1000])
    second = start(data, tmp_path)
    seen = []
    again = second.train(data, resume=True, progress=note_steps(seen))
    assert seen[:2] == [2, 3]
    assert again.losses == whole[1].losses


def test_a_checkpoint_killed_while_it_is_written_is_not_seen(data, tmp_path, monkeypatch):
    def killed(*arguments, **options):
        raise KeyboardInterrupt

    calls = iter([save_file, killed, *[save_file] * 3])
    monkeypatch.setattr(checkpoint, "save_file", lambda *a, **k: next(calls)(*a, **k))
    run = start(data, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run.train()
    assert checkpoint.newest(tmp_path, run.identity).step == 2
    again = start(data, tmp_path).train(resume=True)
    assert again.steps == 6
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("schedule", "name"),
    [(replace(SCHEDULE, seed=SCHEDULE.seed + 1), "a"), (SCHEDULE, "another model")],
)
def test_checkpoints_of_another_run_are_refused(data, tmp_path, schedule, name):
    interrupt(start(data, tmp_path).train, 3)
    with pytest.raises(InputError, match="other options"):
        start(data, tmp_path, schedule, name).train(resume=True)


def test_a_step_does_not_depend_on_how_its_batch_is_cut(data, tmp_path):
    losses = []
    for micro in (1, 8):
        run = start(data, tmp_path / str(micro), replace(SCHEDULE, micro_batch=micro))
        for layer in run.model.model.layers:
            layer.self_attn.attention_dropout = 0.0
        run.plan = (0, [[data.lengths.argsort()[i : i + micro] for i in range(0, 8, micro)]])
        losses.append([run._step(0), *(p.detach().sum().item() for p in run.trainable.values())])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4, abs=1e-8)


def test_training_that_diverges_is_given_up_with_advice(data, tmp_path):
    run = start(data, tmp_path)
    run.peaks = [1e9]
    with pytest.raises(InputError, match=r"training diverged: .*: use a learning rate below 1e"):
        run.train()


def test_the_newest_two_checkpoints_are_kept_in_safetensors_and_json(data, tmp_path):
    start(data, tmp_path, replace(SCHEDULE, checkpoint_steps=1)).train()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000005", "step-00000006"]
    assert {p.suffix for p in tmp_path.rglob("*") if p.is_file()} == {".safetensors", ".json"}


def test_a_run_out_of_time_stops_and_lowers_its_learning_rate(data, tmp_path, monkeypatch):
    now = iter(range(0, 10_000, 10))  # each look at the clock is ten seconds later
    monkeypatch.setattr("tasc.training.loop.time.monotonic", lambda: float(next(now)))
    run = start(data, tmp_path, replace(SCHEDULE, epochs=1000.0, minutes=1.0))
    report = run.train()
    assert 1 < report.steps < 6
    assert run.optimizer.param_groups[0]["lr"] < 1e-3


def test_the_linear_schedule_goes_to_nothing_and_the_cosine_to_its_floor():
    linear = Schedule(1.0, 1, 1)
    assert [linear.rate(i, i / 4) for i in range(5)] == [1.0, 0.75, 0.5, 0.25, 0.0]
    cosine = Schedule(1.0, 1, 1, shape="cosine", floor=0.1, warmup_steps=2)
    assert cosine.rate(0, 0.0) == 0.5
    assert cosine.rate(8, 1.0) == pytest.approx(0.1)
    assert cosine.rate(4, 0.5) == pytest.approx(0.55)


def test_a_run_is_as_far_as_its_steps_or_its_minutes_say_whichever_is_more():
    timed = Schedule(1.0, 1, 1, minutes=2)
    assert [timed.spent(step, 10, 60.0) for step in (1, 9)] == [0.5, 0.9]
    assert timed.spent(1, 10, 600.0) == 1.0
    assert Schedule(1.0, 1, 1).spent(1, 10, 600.0) == 0.1


def test_files_and_folder_are_flushed_before_the_rename_and_the_one_above_after(
    tmp_path, monkeypatch
):
    calls = []
    fsync, rename = os.fsync, os.rename

    def flushed(handle):
        calls.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def renamed(old, new):
        calls.append(f"-> {Path(new).name}")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "rename", renamed)
    checkpoint.save(tmp_path / "work", "me", STATE)
    name = "step-00000001"
    assert calls == ["state.json", "state.safetensors", f"{name}.tmp", f"-> {name}", "work"]


def test_links_with_the_names_of_checkpoints_are_removed_and_not_followed(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("mine")
    for name in ("step-00000000.tmp", "step-00000001", "step-00000000"):
        (tmp_path / name).symlink_to("home")
    checkpoint.save(tmp_path, "me", STATE)
    found = checkpoint.newest(tmp_path, "me")
    assert found is not None
    assert found.step == 1
    checkpoint.clear(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"home"}
    assert (tmp_path / "home" / "thesis.txt").read_text() == "mine"
