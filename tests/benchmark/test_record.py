from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasc.benchmark.pages.bench import latency, time_by_part
from tasc.benchmark.paired.pairs import comparisons
from tasc.benchmark.record import PARTS, describe, ends_in_loop
from tasc.benchmark.results.cells import Difference, Lossless
from tasc.decoding.decode import Generation, Timeline
from tasc.decoding.loaded import Loaded
from tasc.decoding.policy import Policy
from tasc.models.cost_model import CostModel
from tests.benches import make_cell, make_settings


def generation(tokens: list[int], accepted: list[int], ms: float) -> Generation:
    return Generation(
        np.array(tokens, np.int32),
        drafted=[4 if a else 2 for a in accepted],
        accepted=accepted,
        timeline=Timeline(forward=ms / 1000),
    )


class Letters:
    """Token i is the i-th letter, y and z end an output, and "e g" has a token of its own."""

    def decode(self, ids: list[int]) -> str:
        return " ".join(chr(97 + i) for i in ids if i < 24)

    def encode(self, texts: list[str]) -> Any:
        tokens = [[26] if text == "e g" else [ord(c) - 97 for c in text.split()] for text in texts]
        return SimpleNamespace(split=lambda: [np.array(ids, np.int32) for ids in tokens])


def cell(model: str, method: str, *runs: list[Generation]) -> Any:
    return SimpleNamespace(
        model=Loaded(model, SimpleNamespace(shared=0), Letters(), (24, 25)),  # type: ignore[arg-type]
        method=SimpleNamespace(label=method, source=lambda _resources: "other"),
        runs=list(runs),
        policy=Policy(),
        resources=None,
    )


def test_references_that_cannot_be_written_are_counted():
    """ "e g" has a token that decodes to nothing, and z ends an output."""
    made = [generation([0, 1], [0], 20)] * 4
    references = ["a b", "e g", "a z b", "a b"]
    found = describe(cell("m", "ar", made), None, references, ["exact_match"], ";")
    assert found.rewritten == 2
    settings = make_settings(generation={"m": {"applied": {"repetition_penalty": 1.3}}})
    assert settings.generation["m"].line == "applied repetition_penalty=1.3"


@pytest.fixture
def rows():
    plain = [generation([0, 1, 2, 3], [0] * 3, 40), generation([4, 5], [0], 20)]
    for g in plain:
        g.drafted = [0] * len(g.drafted)
    fast = [generation([0, 1, 2, 3], [2], 20), generation([4, 6], [0], 12)]
    slower = [generation([0, 1, 2, 3], [2], 30), generation([4, 6], [0], 14)]
    cells = [cell("m", "ar", plain, plain), cell("m", "spec", fast, slower)]
    same = Lossless(against="ar", identical=2, of=2, match_rate=1)
    first = Difference(sample=1, token=1, margin=0.25)
    parted = {"identical": 1, "match_rate": 0.5, "first_difference": first, "largest_margin": 0.25}
    matches = [same, same.model_copy(update=parted)]
    quality = ["a b c d", "e f"], ["exact_match"], ";"
    return [describe(cell, found, *quality) for cell, found in zip(cells, matches, strict=True)]


def test_an_output_that_ends_at_the_limit_is_not_cut():
    runs = [generation([0, 24], [0], 1), generation([0, 1], [0], 1)]
    runs[0].finish = "end"
    row = describe(cell("m", "ar", runs), None, ["a", "a b"], ["exact_match"], ";")
    assert [output.cut for output in row.outputs] == [False, True]


def test_a_cut_output_has_the_length_of_its_reference_and_a_loop_is_seen():
    looping, counting = generation([0, *[1, 2] * 10], [0], 1), generation([*range(20)], [0], 1)
    ended = generation([0, *[1, 2] * 10], [0], 1)
    ended.finish = "end"
    references = ["a b", "a b c", "a"]
    row = describe(
        cell("m", "ar", [looping, counting, ended]), None, references, ["exact_match"], ";"
    )
    assert [output.loops for output in row.outputs] == [True, False, False]
    assert [output.reference_tokens for output in row.outputs] == [2, 3, None]


@pytest.mark.parametrize(
    ("tokens", "loops"),
    [
        ([7] * 3, True),
        ([5, 6] * 3, True),
        ([5, 6] * 2, False),
        ([*range(100, 116)] * 3, True),
        ([*range(100, 117)] * 3, False),  # a longer period
        ([1, 2, *[*range(100, 110)] * 3], True),
        ([*range(30), 7, 7, 7], False),  # such as the zeros of a number
        ([*range(30), *[7] * 16], True),
        ([*range(30), *[7] * 16, 8], False),
        ([], False),
        ([7], False),
    ],
)
def test_a_loop_is_three_repetitions_or_more_up_to_the_end(tokens, loops):
    assert ends_in_loop(np.array(tokens, np.int32)) == loops


def test_times_are_medians_over_repeats_and_means_over_samples(rows):
    assert rows[0].ms_per_sample == pytest.approx(30)
    assert rows[1].sample_ms.tolist() == pytest.approx([25, 13])
    assert rows[1].ms_per_sample == pytest.approx(19)
    assert rows[1].ms_per_sample_by_repeat == pytest.approx([16, 22])
    assert rows[1].tokens_per_second == pytest.approx(6000 / 38)


def test_tokens_a_step_are_counted_over_all_steps(rows):
    counts = [(row.decoding_steps, row.drafted, row.accepted) for row in rows]
    assert counts == [(6, 0, 0), (4, 6, 2)]
    assert [row.tokens_per_step for row in rows] == [1, 2]
    assert rows[1].tokens_per_step_interval == (1, 3)
    assert [row.accepted_by_position for row in rows] == [(), (0.5, 0.5)]


def test_outputs_in_other_tokens_than_the_tokenizers_are_counted(rows):
    assert [row.canonical for row in rows] == [1.0, 0.5]
    ended = [generation([0, 25], [], 1), generation([24], [], 1), generation([4, 6, 25], [], 1)]
    row = describe(cell("m", "ar", ended), None, ["a"] * 3, ["exact_match"], ";")
    assert row.canonical == pytest.approx(2 / 3)
    assert row.times_canonical_length == pytest.approx(3 / 2)


def test_a_difference_is_counted_and_located(rows):
    assert [row.lossless.identical for row in rows] == [2, 1]
    assert rows[1].lossless.first_difference == Difference(sample=1, token=1, margin=0.25)
    assert rows[1].lossless.largest_margin == 0.25
    assert [row.lossless.match_rate for row in rows] == [1.0, 0.5]
    assert rows[1].quality == {"exact_match": 0.5}


def test_comparisons_are_with_the_first_method(rows):
    (comparison,) = comparisons(rows, make_settings())
    assert (comparison.against.model, comparison.against.method) == ("m", "ar")
    assert comparison.speedup == pytest.approx(30 / 19)
    assert comparison.speedup_interval is None  # of two samples
    assert comparison.fewer_steps == pytest.approx(1.5)


def test_every_output_is_kept_with_its_tokens_steps_and_times(rows):
    assert [output.text for output in rows[1].outputs] == ["a b c d", "e g"]
    assert [(output.tokens, output.steps) for output in rows[1].outputs] == [(4, 2), (2, 2)]
    assert [output.ms for output in rows[1].outputs] == [(20, 30), (12, 14)]


def test_the_bars_of_the_timeline_hold_every_second(rows):
    bars = time_by_part(rows)
    assert [bar["ms"] for bar in bars] == pytest.approx([30, 19.0])
    assert [bar["length"] for bar in bars] == pytest.approx([100, 100 * 19 / 30])
    for bar in bars:
        assert [part["name"] for part in bar["parts"]] == list(PARTS)
        assert sum(part["share"] for part in bar["parts"]) == pytest.approx(100)
        assert {part["name"]: part["ms"] for part in bar["parts"]}["forward"] == bar["ms"]


def test_latency_bars_are_drawn_to_the_longest_percentile():
    spreads = [{"p10": 10.0, "p90": 40.0}, {"p10": 5.0, "p90": 10.0}]
    rows = [
        make_cell(ms_per_sample=ms, ms_per_sample_spread={"p50": ms} | spread)
        for ms, spread in zip((20.0, 8.0), spreads, strict=True)
    ]
    bars = latency(rows)
    drawn = [(b["length"], b["begin"], b["extent"]) for b in bars]
    assert drawn == [(50, 25, 75), (20, 12.5, 12.5)]


def test_what_an_adaptive_budget_learnt_and_decided_is_kept():
    adaptive = cell("m", "spec", [generation([0, 1], [1], 20)])
    policy = adaptive.policy = Policy(CostModel((1, 4), (0.010, 0.020)))
    assert policy.cost is not None
    for _ in range(2):
        policy.cost.record(4, 0.030)
    policy.decided.update(drafted=3, paused=2)
    sizing = describe(adaptive, None, ["a b"], ["exact_match"], ";").sizing
    assert sizing is not None
    assert sizing.curve_tokens == (1, 4)
    assert sizing.curve_ms == pytest.approx((10, 20))
    assert sizing.curve_found_ms[1] == pytest.approx(30)
    assert (sizing.drafted, sizing.paused, sizing.trials) == (3, 2, 0)
