"""Predictions from references and costs, against decoding that writes the references."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasc.bench import predict
from tasc.bench.record import speedup
from tasc.models.cost import CostCurve
from tasc.models.target import Target
from tasc.spec.decode import generate
from tasc.spec.drafters import Resources, parse
from tests.pico import build_model

COST = CostCurve((1, 4, 16), (1.0, 1.5, 3.0))


@pytest.mark.parametrize("text", ["tasc-spec", "tasc-spec:budget=4", "tasc-spec-paper", "suffix"])
def test_acceptance_is_foretold_where_the_outputs_are_the_references(text):
    target, rng = Target(build_model("qwen2")), np.random.default_rng(1)
    prompts = [rng.integers(1, 320, 6).astype(np.int32) for _ in range(12)]
    method = parse(text)

    def decode(factory, prompt, budget):
        return generate(target, factory(), prompt, max_new_tokens=60, end_ids=(0,), budget=budget)

    plain = parse("ar").prepare(Resources([], 0))
    references = [decode(plain, prompt, 0).tokens for prompt in prompts]
    known = [np.concatenate([r[:20], rng.permutation(r[20:])]) for r in references] * 5
    factory = method.prepare(Resources(known, 0))
    lived = [decode(factory, prompt, method.budget) for prompt in prompts]
    settled = [a + 1 for g in lived for a, d in zip(g.accepted, g.drafted, strict=True) if d]
    found = predict.predict(
        factory, prompts, [r[r != 0] for r in references], 0, method.budget, COST
    )
    assert np.mean(settled) > 1.2
    assert found.acceptance_length == pytest.approx(np.mean(settled), rel=0.05)


def test_time_is_the_prompt_the_steps_and_the_drafts():
    outputs = [np.array([3, 4, 5], np.int32)] * 2
    prompts = [np.array([1, 1, 1, 1], np.int32)] * 2
    found = predict.predict(parse("ar").prepare(Resources([], 0)), prompts, outputs, 0, 0, COST)
    assert (found.tokens_per_output, found.steps_per_output) == (4, 4)
    assert found.acceptance_length == 1
    assert found.ms_per_sample == pytest.approx(1000 * (1.5 + 3 * 1.0), rel=0.01)


def test_a_sampled_bench_is_predicted_against_the_speedup_that_it_reports():
    row = {"lossless": None, "ms_per_sample": 10.0, "tokens_per_second": 300.0}
    seen = row | {"acceptance_length": 2.0}
    first = {"lossless": None, "ms_per_sample": 40.0, "tokens_per_second": 100.0}
    model, method = SimpleNamespace(label="m"), SimpleNamespace(label="spec")
    cell: Any = SimpleNamespace(model=model, method=method)
    one = predict.Prediction(1, 4, 4, 1.0, 8.0)
    two = predict.Prediction(1, 4, 2, 2.0, 4.0)
    found = predict._compared(cell, two, one, seen, first)
    assert found["measured_speedup"] == speedup(seen, first) == pytest.approx(3)


class Words:
    """Every text is the ids that it lists."""

    def __init__(self, size):
        self.size = size

    def vocabulary(self):
        return [b""] * self.size

    def encode(self, texts):
        ids = np.array([int(i) % self.size for text in texts for i in text.split()], np.int32)
        return SimpleNamespace(tokens=ids)


def test_entropy_and_runtime_are_compared_over_the_vocabularies_of_a_bench():
    corpus: Any = SimpleNamespace(outputs=["0 1 2 3", "4 5 6 7"])
    sizes = {"a": 2, "b": 4, "c": 8}
    cells: list[Any] = [
        SimpleNamespace(
            model=SimpleNamespace(label=label, tokenizer=Words(size)),
            method=SimpleNamespace(label="ar"),
        )
        for label, size in sizes.items()
    ]
    rows = [
        {"model": label, "method": "ar", "ms_per_sample": ms}
        for label, ms in (("a", 9.0), ("b", 5.0), ("c", 4.0))
    ]
    found = predict.entropy_and_runtime(cells, corpus, rows)
    assert [point["budget"] for point in found["points"]] == [0, 2, 6]
    assert [point["h2"] for point in found["points"]] == pytest.approx([1, 2, 3])
    assert (found["tau"], found["directional_rate"]) == (pytest.approx(-1), 1)
    assert predict.entropy_and_runtime(cells[:1], corpus, rows[:1]) is None
