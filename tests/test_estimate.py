"""The estimated time and memory of a recipe's steps: counts, and what is not estimated."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tasc.commands import estimate
from tasc.commands.estimate import estimate_steps
from tasc.commands.measure import DecodingCost, TrainingCost
from tasc.commands.plan import RunOptions, read
from tasc.models.targets.fastest import target_for
from tasc.training.speed import TrainingSpeed, training_speed
from tests.cli import done, printed
from tests.pico import make_base
from tests.recipes import ROWS, write

SPEED = TrainingSpeed(example=9.0, token=0.01, update=2.0, weights=1000, trained=100, saved=10.0)


@pytest.fixture(autouse=True)
def task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, count in (("train", 40), ("validation", 4), ("test", 10)):
        write(Path("task") / f"{name}.jsonl", [{"input": "a", "output": "b"}] * count)
    make_base(Path("model"))


@pytest.fixture
def timed(monkeypatch):
    """Replace measurements: a token takes 0.01 s to train and 0.1 s to decode; loading, 1 s."""
    monkeypatch.setattr(estimate, "measure_training", lambda *_: TrainingCost(1.0, SPEED))
    forwards = DecodingCost(load=1.0, token=0.1, tree=0.3, prompt_token=0.02, memory=1000)
    monkeypatch.setattr(estimate, "measure_decoding", lambda *_: forwards)
    # Each example has a prompt of two tokens and an output of two, with its end token.
    counts = lambda corpus, _: (np.full(len(corpus.examples), 2),) * 2  # noqa: E731
    monkeypatch.setattr(estimate, "token_lengths", counts)


def estimated(*steps, **options):
    lines = "".join(f"  {step}\n" for step in steps)
    Path("r.yaml").write_text(f"name: x\ndescription: y\ndata: {{path: task}}\nsteps:\n{lines}")
    return estimate_steps(read(Path("r.yaml"), RunOptions(recipe="r.yaml", **options)), {})


TRAINING = "{command: finetune, model: model, epochs: 2, batch_size: 4, effective_batch: 8"


@pytest.mark.usefixtures("timed")
def test_training_is_counted_in_tokens_steps_and_evaluations():
    made = estimated(
        f"a: {TRAINING}, merge: true}}", f"b: {TRAINING}, tokens_of: a}}".replace("epochs: 2, ", "")
    )
    trained = 2 * 40 * 4 * 0.01 + 10 * 2.0  # tokens of two epochs, and ten steps of the optimizer
    validated = 2 * 4 * 4 * 0.4 * 0.01
    assert made["a"].seconds == pytest.approx(trained + validated + 5.0 + 3 * 1.0)
    assert made["b"].seconds == pytest.approx(trained + validated + 5.0 + 1.0)
    assert "2 epochs of 40 examples" in made["a"].basis
    limited = estimated(f"a: {TRAINING}}}", limit=20)["a"].seconds
    assert limited == pytest.approx(20 * 4 * 2 * 0.01 + 6 * 2.0 + validated + 5.0 + 1.0)


@pytest.mark.usefixtures("timed")
def test_memory_is_that_of_weights_optimizer_and_activations():
    without, best = (
        estimated(f"a: {TRAINING}{more}}}")["a"].memory - estimate._RUNTIME
        for more in ("", ", patience: 2")
    )
    assert without == pytest.approx(1.15 * (1000 + 3 * 100 + 16 * 10.0), abs=1)
    assert best - without == pytest.approx(1.15 * 100, abs=1)


@pytest.mark.usefixtures("timed")
def test_decoding_is_counted_by_method_and_bounded_by_minutes():
    bench = "{command: bench, models: [model], methods: [%s], warmup: 0%s}"

    def seconds(methods, more=""):
        return estimated(f"bench: {bench % (methods, more)}")["bench"].seconds

    # Of ten outputs, each has a prompt of 0.04 s and two tokens.
    assert seconds("ar, tasc-spec") - seconds("ar") == pytest.approx(10 * (0.04 + 2 / 2 * 0.3))
    twice = seconds("ar", ", repeats: 2") - seconds("ar")
    assert twice == pytest.approx(10 * (0.04 + 2 * 0.1))
    assert seconds("ar", ", minutes: 0.01") - seconds("ar") == pytest.approx(0.6 - 2.4)


@pytest.mark.usefixtures("timed")
def test_what_cannot_be_measured_is_said():
    elsewhere = "a: {command: finetune, model: Qwen/Qwen2.5-0.5B}"
    made = estimated(elsewhere, "bench: {command: bench, models: [model], batch_size: 2}")
    assert made["a"].seconds is made["a"].memory is None
    assert made["a"].basis == "not estimated: the model is not here yet"
    assert made["bench"].basis.startswith("not estimated: benches in batches")
    assert (
        estimated("a: {command: export, model: model, to: vllm}")["a"].basis
        == "not estimated: steps of tasc export"
    )
    unknown = estimated(elsewhere, f"b: {TRAINING}, tokens_of: a}}".replace("epochs: 2, ", ""))
    assert unknown["b"].basis == "not estimated: the number of tokens of a is not known"


def test_a_model_from_scratch_is_tried_in_its_shape(capsys):
    write(Path("task/train.jsonl"), ROWS)
    made = estimated(
        "base: {command: base, preset: pico, epochs: 2}",
        "tuned: {command: finetune, model: base, quantize: none, merge: true, epochs: 1}",
        "bench: {command: bench, models: [tuned], methods: [ar], split: train, limit: 2}",
    )
    assert all(one.seconds > 0 and one.memory > 0 for one in made.values())
    assert "a new model of this shape" in made["tuned"].basis
    assert {path.name for path in Path.cwd().iterdir()} == {"model", "r.yaml", "task"}
    planned = printed(capsys, "run", "r.yaml", "--dry-run")
    assert "Estimate for this machine without other work: " in planned
    steps = done(capsys, "run", "r.yaml", "--dry-run")
    assert steps[1]["estimate"]["basis"].startswith("measured training steps of a new model")


def test_a_recipe_that_was_just_written_is_estimated(capsys):
    write(Path("mine.jsonl"), [{"input": f"a {n}", "output": f"b {n}"} for n in range(60)])
    made = done(capsys, "init", "mine.jsonl", "--model", "model")
    assert made["estimates"]["baseline"]["seconds"] > 0
    assert set(made["estimates"]) >= {"analysis", "baseline", "bench"}


def test_a_measured_training_step_changes_nothing_and_counts_bytes():
    from transformers import AutoModelForCausalLM

    from tasc.tokenizer.loaded import load_tokenizer
    from tasc.training.core.batch import encode_examples

    model = AutoModelForCausalLM.from_pretrained("model").requires_grad_(True).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    examples = encode_examples(load_tokenizer("model"), ["play it"] * 9, ["song"] * 9, 64)
    speed = training_speed(model, examples, 4, bfloat16=False)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert speed.weights == speed.trained == sum(p.nbytes for p in model.parameters())
    hidden = model.config.hidden_size * model.config.num_hidden_layers
    assert speed.saved > 4 * hidden  # at least the inputs of each layer, in float32
    assert min(speed.example, speed.token, speed.update) > 0
    from tasc.models.cost import prefill_seconds, token_seconds

    target = target_for(model.eval())
    assert token_seconds(target, 4) > 0 < prefill_seconds(target, 5)
