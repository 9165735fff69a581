"""What a first dry run says of the time its steps take."""

import json

import pytest

from tasc.commands.plan import Overrides, read
from tasc.commands.preview import preview
from tasc.models import probe
from tests.pico import make_base
from tests.recipes import HEAD, ROWS, write


@pytest.fixture
def estimated(tmp_path, monkeypatch):
    """Estimate the steps of a recipe where each token that one layer reads takes a second."""
    monkeypatch.setattr(probe, "_seconds", lambda run, model: _tokens_read(run, model))
    for split, rows in (("train", ROWS), ("validation", ROWS[:9]), ("test", ROWS[:10])):
        write(tmp_path / "task" / f"{split}.jsonl", rows)
    base = make_base(tmp_path / "model")

    def steps(*lines: str) -> dict[str, float | None]:
        recipe = tmp_path / "r.yaml"
        recipe.write_text(
            HEAD + "".join(f"  {line}\n" for line in lines).replace("BASE", str(base))
        )
        before = sorted(tmp_path.rglob("*"))
        plan = read(recipe, Overrides(data_dir=tmp_path))
        found = preview(plan, tmp_path / "out")
        assert sorted(tmp_path.rglob("*")) == before
        return {step.name: step.estimated_seconds for step in found}

    return steps


def _tokens_read(run, model) -> float:
    read_: list[int] = []
    hook = model.get_input_embeddings().register_forward_pre_hook(
        lambda _, given: read_.append(given[0].numel())
    )
    run(model)
    hook.remove()
    return float(read_[0] * model.config.num_hidden_layers)


def test_training_takes_what_its_tokens_and_layers_take(estimated):
    found = estimated(
        "once: {command: finetune, model: BASE, epochs: 1, quantize: none, validation: null}",
        "twice: {command: finetune, model: BASE, epochs: 2, quantize: none, validation: null}",
        "held-out: {command: finetune, model: BASE, epochs: 1, quantize: none}",
        "quantised: {command: finetune, model: BASE, epochs: 1, validation: null}",
    )
    each = found["once"] / len(ROWS) / 2  # of two layers, to whole tokens of prompt and output
    assert each == round(each)
    assert found["twice"] == 2 * found["once"]
    assert found["held-out"] == pytest.approx(found["once"] * (1 + 9 / 3 / len(ROWS)))
    assert found["quantised"] > 2 * found["once"]


def test_equal_compute_takes_as_long_as_what_it_equals(estimated):
    found = estimated(
        "base: {command: base, preset: pico, epochs: 2}",
        "clock: {command: base, preset: pico, minutes: 2}",
        "either: {command: base, preset: pico, epochs: 2, minutes: 100000}",
        "one: {command: finetune, model: base, quantize: none}",
        "tokens: {command: augment, tokenizer: base, budget: 2}",
        "two: {command: finetune, model: base, augmented: tokens, tokens_of: one}",
        "few: {command: finetune, model: base, quantize: none, tokens: 100}",
        "many: {command: finetune, model: base, quantize: none, tokens: 300}",
    )
    assert found["clock"] == 120
    assert found["either"] == found["base"]
    assert found["many"] == pytest.approx(3 * found["few"])
    assert found["base"] > 0
    assert found["two"] == found["one"] > 0
    assert found["tokens"] is None


def test_a_bench_takes_every_sample_as_often_as_it_is_decoded(estimated):
    found = estimated(
        "one: {command: bench, models: [BASE], methods: [ar]}",
        "four: {command: bench, models: [a=BASE, b=BASE], methods: [ar, tasc-spec]}",
        "half: {command: bench, models: [BASE], methods: [ar], limit: 5}",
        "cut: {command: bench, models: [BASE], methods: [ar], max_new_tokens: 1}",
    )
    assert found["four"] == 4 * found["one"]
    assert found["half"] == pytest.approx(found["one"] / 2, rel=0.1)
    assert found["cut"] < found["one"]


def test_a_draft_head_takes_the_answers_too(estimated):
    found = estimated(
        "head: {command: finetune, model: BASE, draft_head: true, epochs: 1, validation: null,"
        " batch_size: 8}",
        "adapter: {command: finetune, model: BASE, quantize: none, epochs: 1, validation: null}",
    )
    assert found["head"] > found["adapter"]


def test_nothing_is_said_of_what_is_not_here(estimated, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    found = estimated(
        "hub: {command: finetune, model: someone/model}",
        f"broken: {{command: bench, models: [{tmp_path / 'broken'}]}}",
        "later: {command: bench, models: [hub=someone/model]}",
    )
    assert found == {"hub": None, "broken": None, "later": None}


def test_nothing_is_said_of_what_equals_a_training_elsewhere(estimated, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "training.json").write_text("{}")
    step = f"two: {{command: finetune, model: BASE, tokens_of: {tmp_path / 'other'}}}"
    assert estimated(step) == {"two": None}


def test_models_too_large_for_a_try_are_not_tried(estimated, monkeypatch):
    monkeypatch.setattr(probe, "_MOST_PARAMETERS", 1000)
    assert estimated("one: {command: bench, models: [BASE]}") == {"one": None}


def test_large_data_are_not_read_for_it(estimated, monkeypatch):
    monkeypatch.setattr("tasc.commands.estimate._MOST_BYTES", 10)
    assert estimated("one: {command: bench, models: [BASE]}") == {"one": None}
