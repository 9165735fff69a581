"""Cells on a tiny model: what a run may know of the ones before it."""

import numpy as np
import pytest

from tasc.benchmark import matrix
from tasc.benchmark.matrix import prepare, run
from tasc.decoding.core.generation import Timeline
from tasc.decoding.decode import Generation
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.loaded import Loaded
from tasc.models.target import Target
from tests.benchmark.tasks import split_of
from tests.decoding.outputs import generate
from tests.options import BenchOptions
from tests.pico import build_model

METHODS = "ar", "tasc-spec", "prompt-lookup", "suffix"


@pytest.fixture(scope="module")
def bench(tokenizer):
    """Return a model whose output ends early, and the split with the one prompt."""
    target, text = Target(build_model()), "wake me up at nine"
    prompt = tokenizer.encode([text]).tokens
    tokens = generate(target, Autoregressive(), prompt, max_new_tokens=30).tokens
    loaded = Loaded("m", target, tokenizer, (int(tokens[20]),))
    return loaded, split_of([text])


def test_an_adapting_method_begins_each_repeat_without_the_outputs_that_it_decodes(bench):
    model, split = bench

    def accepted(**limits):
        method = "prompt:adapt=true,p_min=1"
        options = BenchOptions(methods=(method,), max_new_tokens=30, **limits)
        (cell,) = run(prepare([model], split, split, options), options)
        return [done[0].accepted for done in cell.runs]

    (alone,) = accepted(repeats=1, warmup=0)
    assert accepted(repeats=2, warmup=1) == [alone, alone]


@pytest.fixture
def decoded(bench, monkeypatch):
    """Return the cells of four methods on 30 samples, and their turns; a sample takes a second."""
    model, _ = bench
    split = split_of(["x"] * 30)
    made = Generation(np.zeros(1), timeline=Timeline(forward=1.0))

    def decoded(**given):
        seen = []

        def decode(cell, prompts, turn, options):
            seen.append((turn.start, cell.method.label))
            return [made] * (turn.stop - turn.start)

        monkeypatch.setattr(matrix, "decode", decode)
        options = BenchOptions(methods=METHODS, repeats=2, warmup=0, **given)
        cells = run(prepare([model], split, split, options), options)
        return [[len(samples) for samples in (cell.prompts, *cell.runs)] for cell in cells], seen

    return decoded


def test_all_cells_stop_after_the_same_sample_when_their_minutes_are_over(decoded):
    assert decoded(minutes=1)[0] == [[8] * 3] * 4  # half a minute for each repeat
    assert decoded(minutes=4)[0] == [[30] * 3] * 4


def test_cells_take_turns_in_an_order_drawn_anew_with_the_seed(decoded):
    samples, seen = decoded(seed=3)
    assert samples == [[30] * 3] * 4
    turns = [seen[i : i + 4] for i in range(0, len(seen), 4)]
    assert [turn[0][0] for turn in turns] == [*range(30)] * 2  # interleaved, sample by sample
    assert all(len(set(turn)) == 4 for turn in turns)
    orders = [tuple(cell for _, cell in turn) for turn in turns]
    assert len(set(orders)) > 10
    for cell in orders[0]:  # none runs first much more often than the others
        assert 5 <= sum(order[0] == cell for order in orders) <= 27
    assert decoded(seed=3)[1] == seen != decoded(seed=4)[1]


def test_the_common_beginning_of_prompts_is_read_before_anything_is_measured(bench):
    model, _ = bench
    texts = [f"wake me up at nine and {word}" for word in ("play", "rain", "stop the lights")]
    split = split_of(texts)
    read: list[int] = []
    hook = model.target.model.get_input_embeddings().register_forward_hook(
        lambda _module, args, _out: read.append(args[0].shape[1])
    )
    options = BenchOptions(methods=("ar", "suffix"), max_new_tokens=4, warmup=0)
    told: list[tuple[str, int, int]] = []
    cells = run(
        prepare([model], split, split, options), options, progress=lambda *x: told.append(x)
    )
    assert told == [("decode", done, 6) for done in range(7)]
    hook.remove()
    shared = model.target.shared
    assert 4 <= shared == read[0]
    prompts = model.encode(texts)
    assert sum(read[1:].count(len(p) - shared) for p in prompts) >= 6  # by both methods
    assert max(read[1:]) < shared
    model.target.share(prompts[0][:0])
    for prompt, *outputs in zip(prompts, *(cell.runs[0] for cell in cells), strict=True):
        alone = generate(
            model.target, Autoregressive(), prompt, max_new_tokens=4, end_ids=model.end_ids
        )
        assert all((alone.tokens == made.tokens).all() for made in outputs)
