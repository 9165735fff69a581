"""Where the figures of a training go while it runs, and that nothing else changes by it."""

import json
from typing import Any, ClassVar

import pytest
import torch
from accelerate import tracking as accelerates

from tasc.errors import InputError, UnavailableError
from tasc.files.resume import output_of, work_of
from tasc.training.base import train_base
from tasc.training.draft_head import train_head
from tasc.training.train import Start, finetune
from tests.cli import tasc
from tests.options import BaseOptions, FinetuneOptions, HeadOptions, replace
from tests.training.runs import stop_after
from tests.training.samples import OPTIONS, corpus

CLASSES = {"tensorboard": "TensorBoardTracker", "wandb": "WandBTracker", "mlflow": "MLflowTracker"}


class Recorder:
    """Stands in for accelerate's trackers, whose packages are not installed."""

    opened: ClassVar[list["Recorder"]] = []

    def __init__(self, *given: object, **named: object) -> None:
        self.given, self.named = given, named
        self.calls: list[str] = []
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.settings: dict[str, Any] = {}
        self.opened.append(self)

    def start(self) -> None:
        self.calls.append("start")

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.settings = values

    def log(self, values: dict[str, float], step: int) -> None:
        self.logged.append((step, values))

    def finish(self) -> None:
        self.calls.append("finish")

    def of(self, name: str) -> dict[int, float]:
        """What was logged by a name, by step."""
        return {step: values[name] for step, values in self.logged if name in values}


@pytest.fixture
def recorders(monkeypatch):
    monkeypatch.setattr(accelerates, "get_available_trackers", lambda: list(CLASSES))
    for name in CLASSES.values():
        monkeypatch.setattr(accelerates, name, Recorder)
    monkeypatch.setattr(Recorder, "opened", [])
    return Recorder.opened


def test_each_gets_every_figure_once_and_the_training_is_the_same(start, tmp_path, recorders):
    logs = tmp_path / "logs"
    told = replace(OPTIONS, log_to=("tensorboard", "wandb", "mlflow", "wandb"), log_dir=str(logs))
    work = work_of(tmp_path / "out.1")
    made = finetune(start, corpus(), corpus(first=12), told, work=work)
    plain = finetune(start, corpus(), corpus(first=12), OPTIONS, work=tmp_path / "plain")
    assert made.report.losses == plain.report.losses
    assert made.report.evaluations == plain.report.evaluations
    expected = dict(plain.model.named_parameters())
    assert all(torch.equal(p, expected[name]) for name, p in made.model.named_parameters())
    board, bias, flow = recorders
    assert (board.given, board.named) == (("out.1",), {"logging_dir": logs})
    assert (bias.given, bias.named) == (("tasc",), {"name": "out.1", "dir": logs})
    assert (flow.given, flow.named) == (("tasc",), {"run_name": "out.1"})
    for recorder in recorders:
        assert recorder.calls == ["start", "finish"]
        assert tuple(recorder.of("loss").values()) == made.report.losses
        assert list(recorder.of("loss")) == list(range(1, made.report.steps + 1))
        assert recorder.of("tokens")[made.report.steps] == made.report.tokens
        assert recorder.of("learning_rate")[1] == OPTIONS.peak
        assert recorder.of("learning_rate")[made.report.steps] < OPTIONS.peak
        evaluations = {e.step: e.loss for e in made.report.evaluations}
        assert len(evaluations) == 2
        assert recorder.of("validation_loss") == evaluations
        assert recorder.settings["learning_rate"] == 2e-3
        assert {type(value) for value in recorder.settings.values()} <= {bool, int, float, str}


def test_logs_are_nothing_that_a_run_is_known_by(start, tmp_path, recorders):
    told = replace(OPTIONS, log_to=("wandb",), log_dir=str(tmp_path / "logs"))
    with pytest.raises(KeyboardInterrupt):
        finetune(start, corpus(), None, told, work=tmp_path / "work", progress=stop_after(4))
    finetune(start, corpus(), None, OPTIONS, work=tmp_path / "work", resume=True)
    (recorder,) = recorders
    assert recorder.calls == ["start", "finish"]  # interrupted, too
    assert list(recorder.of("loss")) == [1, 2, 3, 4]
    assert recorder.given + tuple(recorder.named.values())[:1] == ("tasc", "finetune")


@pytest.mark.slow
def test_of_two_processes_the_first_alone_logs(start, tmp_path, recorders):
    told = replace(OPTIONS, processes=2, log_to=("wandb",), log_dir=str(tmp_path / "logs"))
    made = finetune(start, corpus(), corpus(first=12), told, work=tmp_path / "work")
    # The second has no stand-in: it would have failed for want of the package.
    (recorder,) = recorders
    assert tuple(recorder.of("loss").values()) == made.report.losses
    assert len(recorder.of("validation_loss")) == 2


def test_base_models_and_draft_heads_log_alike(base, tmp_path, recorders):
    given: dict[str, Any] = {"epochs": 1.0, "device": "cpu", "log_to": ("wandb",)}
    given["log_dir"] = str(tmp_path / "logs")
    options = BaseOptions(preset="pico", vocabulary=320, block=32, **given)
    made = train_base(corpus(), None, options, work=tmp_path / "base")
    short = HeadOptions(max_new_tokens=8, max_length=64, effective_batch=8, **given)
    head = train_head(str(base), corpus(), None, short, work=tmp_path / "head")
    assert [tuple(recorder.of("loss").values()) for recorder in recorders] == [
        made.report.losses,
        head.report.losses,
    ]


@pytest.mark.parametrize("name", CLASSES)
def test_a_package_that_is_missing_is_named_before_anything_is_loaded(tmp_path, monkeypatch, name):
    monkeypatch.setattr(accelerates, "get_available_trackers", list)
    options = FinetuneOptions(log_to=(name,))
    with pytest.raises(UnavailableError, match=f"install it with pip install {name}$"):
        finetune(Start("nowhere", "nowhere"), corpus(), None, options, work=tmp_path)


def test_a_tracker_that_does_not_start_is_one_line(start, tmp_path, recorders, monkeypatch):
    def fail(_self):
        raise ValueError("no key\nis configured")

    monkeypatch.setattr(Recorder, "start", fail)
    told = replace(OPTIONS, log_to=("wandb",), log_dir=str(tmp_path / "logs"))
    with pytest.raises(UnavailableError, match="wandb: no key is configured: fix the cause, and"):
        finetune(start, corpus(), None, told, work=tmp_path / "work")


def test_logs_do_not_lie_in_the_output(start, tmp_path, recorders):
    out = tmp_path / "out"
    for folder in (tmp_path, out):
        told = replace(OPTIONS, log_to=("tensorboard",), log_dir=str(folder))
        with pytest.raises(InputError, match="choose another --log-dir"):
            finetune(start, corpus(), None, told, work=work_of(out))
    assert recorders == []


@pytest.mark.parametrize("name", ["out", "out.v2", ".hidden", "a.work"])
def test_a_folder_of_checkpoints_tells_its_output(tmp_path, name):
    assert output_of(work_of(tmp_path / name)) == tmp_path / name
    assert output_of(tmp_path / name) is None


def test_the_command_leaves_the_same_artefact_and_is_not_run_again(
    capsys, base, tmp_path, monkeypatch, recorders
):
    monkeypatch.chdir(tmp_path)
    rows = [f'{{"input": "say {i}", "output": "word {i % 5}"}}' for i in range(16)]
    (tmp_path / "task.jsonl").write_text("\n".join(rows))
    given = ("finetune", "task.jsonl", "--model", base, "--epochs", 1, "--quantize", "none")
    manifests = []
    for log in ((), ("--log-to", "tensorboard", "--log-to", "wandb")):
        code, _, err = tasc(capsys, *given, *log, "--output", "out", "--force")
        assert code == 0, err
        manifests.append(json.loads((tmp_path / "out/manifest.json").read_text()))
    assert manifests[0]["arguments"] == manifests[1]["arguments"]
    assert manifests[0]["key"] == manifests[1]["key"]
    assert [recorder.given for recorder in recorders] == [("out",), ("tasc",)]
    assert (tmp_path / "tasc-logs").is_dir()
    code, _, err = tasc(capsys, *given, "--log-to", "paper", "--output", "other")
    assert code == 2
    assert "log_to" in err or "log-to" in err


def test_no_recipe_sends_figures_away(capsys, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "data: builtin:stdlib-tokens\nsteps:\n  base: {command: base, log_to: [wandb]}\n"
    )
    code, _, err = tasc(capsys, "run", recipe, "--output", tmp_path / "out")
    assert code == 2
    assert "log_to is no recipe's to give: run tasc base by hand" in err


def test_tensorboards_own_files_hold_the_losses(start, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    told = replace(OPTIONS, log_to=("tensorboard",), log_dir=str(tmp_path / "logs"))
    made = finetune(start, corpus(), corpus(first=12), told, work=work_of(tmp_path / "out"))
    found = EventAccumulator(str(tmp_path / "logs/out")).Reload()
    assert [event.step for event in found.Scalars("loss")] == list(range(1, made.report.steps + 1))
    assert [event.value for event in found.Scalars("loss")] == pytest.approx(made.report.losses)
    assert len(found.Scalars("validation_loss")) == 2
