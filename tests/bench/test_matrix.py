"""Cells on a tiny model: what a run may know of the ones before it."""

from types import SimpleNamespace

import pytest

from tasc.bench.matrix import Loaded, run
from tasc.data.tokenizer import load_tokenizer
from tasc.models.target import Target
from tasc.spec.decode import generate
from tasc.spec.drafters.none import Autoregressive
from tests.options import BenchOptions
from tests.pico import build_model, make_tokenizer


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Return a model whose output ends early, and the split with the one prompt."""
    tokenizer = load_tokenizer(str(make_tokenizer(tmp_path_factory.mktemp("tokenizer"))))
    target, text = Target(build_model()), "wake me up at nine"
    prompt = tokenizer.encode([text]).tokens
    tokens = generate(target, Autoregressive(), prompt, max_new_tokens=30).tokens
    loaded = Loaded("m", target, tokenizer, (int(tokens[20]),))
    return loaded, SimpleNamespace(prompts=[text], outputs=["x"], examples=[None])


def test_an_adapting_method_begins_each_repeat_without_the_outputs_that_it_decodes(bench):
    model, split = bench

    def accepted(**limits):
        (cell,) = run(
            [model],
            split,
            split,
            BenchOptions(methods=("prompt:adapt=true,p_min=1",), max_new_tokens=30, **limits),
        )
        return [done[0].accepted for done in cell.runs]

    (alone,) = accepted(repeats=1, warmup=0)
    assert accepted(repeats=2, warmup=1) == [alone, alone]
