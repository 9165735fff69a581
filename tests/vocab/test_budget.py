"""Choosing a budget: the curve, the recommended_size, and what a row costs."""

import json

import pytest

from tasc.analysis.outputs import encode_outputs
from tasc.analysis.report import analyze
from tasc.backend import MergeRequest, merge_search
from tasc.errors import InputError
from tasc.vocab.augment import augment
from tasc.vocab.page import render
from tasc.vocab.search.budget import Sightings, budget_curve, recommended_size
from tasc.vocab.search.embedding_cost import EmbeddingCost, embedding_cost
from tasc.vocab.search.selection import select
from tests.options import AnalyzeOptions, AugmentOptions
from tests.pico import build_model
from tests.vocab.tiny import corpus, tokenizer

OUTPUTS = [
    f"intent: {verb}, slot fills: {{colour: {word}, size: {k}}}"
    for verb in ("paint_wall", "buy_paint", "mix_paint_well")
    for k, word in enumerate(["red", "green", "blue", "old", "new", "tall"] * 9)
]


def searched(texts=OUTPUTS, held_out=None, rows=None, price=10.0):
    base = tokenizer()
    outputs = encode_outputs(texts, base, "pretoken")
    result = merge_search(
        MergeRequest(
            tokens=outputs.encoded.tokens,
            offsets=outputs.encoded.offsets,
            weights=outputs.weights,
            vocabulary=base.vocabulary(),
            special=base.special_ids,
            budget=200,
            boundaries=outputs.boundaries,
        )
    )
    others = encode_outputs(held_out, base, "pretoken") if held_out else None
    return base, result, budget_curve(result, len(base.vocabulary()), outputs, others, rows, price)


def test_every_point_is_what_a_search_for_that_budget_gives():
    base, result, curve = searched()
    size = len(base.vocabulary())
    assert [point.budget for point in curve.points][:2] == [0, 1]
    for point in curve.points[1:]:
        chosen = select(result, base.vocabulary(), frozenset(), point.budget)
        assert (len(chosen.tokens), chosen.length) == (point.budget, point.merges)
        tokens = result.merges[point.merges - 1].tokens
        assert point.train_steps == pytest.approx(tokens / len(OUTPUTS) + 1)
        assert point.seen == Sightings.of(chosen.left_over)
        risk = sum(f / (f + 1) for f in chosen.left_over) / len(OUTPUTS)
        assert point.risk == pytest.approx(risk)
        assert size + point.budget == chosen.tokens[-1].new_id + 1


def test_the_cost_is_steps_times_rows_times_risk_and_the_recommended_size_its_least():
    rows = EmbeddingCost(parameters=128, step_share=0.001)
    _, _, curve = searched(rows=rows, held_out=OUTPUTS[::3])
    first = curve.points[0]
    assert (first.cost, first.risk, first.parameters) == (1.0, 0.0, 0)
    for point in curve.points:
        assert point.parameters == 128 * point.budget
        steps = point.held_out_steps / first.held_out_steps
        longer = (1 + 0.001 * point.budget) * (1 + 10 * point.risk)
        assert point.cost == pytest.approx(steps * longer)
    assert curve.recommended_size.cost == min(point.cost for point in curve.points)
    assert 0 < curve.recommended_size.budget < curve.points[-1].budget


def test_dearer_risk_and_dearer_rows_move_the_recommended_size_down():
    sizes = [searched(price=price)[2].recommended_size.budget for price in (0.0, 1.0, 10.0, 100.0)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
    slow = EmbeddingCost(parameters=1, step_share=0.05)
    assert searched(rows=slow, price=1.0)[2].recommended_size.budget < sizes[1]


def test_held_out_steps_are_those_of_the_replayed_merges():
    _, _, curve = searched(held_out=OUTPUTS)
    for point in curve.points:
        assert point.held_out_steps == pytest.approx(point.train_steps)


@pytest.mark.parametrize("export", ["pretoken", "added"])
def test_auto_takes_the_recommended_size_and_reports_the_curve(export):
    options = AugmentOptions(budget="auto", export=export)
    made = augment(corpus(OUTPUTS), tokenizer(), options, OUTPUTS[::5])
    assert len(made.tokens) == made.curve.recommended_size.budget > 0
    assert made.curve.points[-1].budget > len(made.tokens)
    assert made.to_dict()["seen"]["least"] >= 1
    page = render(made.to_dict(), "<script>alert(1)</script>")
    assert "<script" not in page
    assert page.count("<svg") == 3


def test_auto_says_so_where_no_token_pays():
    dear = AugmentOptions(budget="auto", overfit_penalty=1e6)
    with pytest.raises(InputError, match=r"tiny.jsonl: no new token is worth its row here"):
        augment(corpus(OUTPUTS), tokenizer(), dear)
    with pytest.raises(InputError, match=r"for no n-gram recurs$"):
        augment(corpus(["x"] * 3), tokenizer(), AugmentOptions(budget="auto"))


@pytest.mark.parametrize(("tied", "rows"), [(True, 1), (False, 2)])
def test_a_row_costs_its_width_and_its_share_of_the_weights(tmp_path, tied, rows):
    # The feed-forward layers are as high as the vocabulary, and are no embeddings for that.
    model = build_model("qwen2", vocabulary=128, hidden=64, tied=tied)
    model.save_pretrained(tmp_path)
    looked_up = 0 if tied else 128 * 64
    expected = EmbeddingCost(64 * rows, 64 / (model.num_parameters() - looked_up))
    assert embedding_cost(tmp_path) == expected
    assert embedding_cost(tmp_path / "none") is None
    stated = json.loads((tmp_path / "config.json").read_text())
    del stated["tie_word_embeddings"]  # left out where it is what the kind of model has anyway
    (tmp_path / "config.json").write_text(json.dumps(stated))
    assert embedding_cost(tmp_path) == expected
    (tmp_path / "config.json").write_text("[]")
    assert embedding_cost(tmp_path) is None


@pytest.mark.parametrize("held_out", [None, OUTPUTS[::3]])
def test_an_analysis_has_the_recommended_size_of_the_same_rule(held_out):
    base, _, curve = searched(held_out=held_out)
    found = analyze(corpus(OUTPUTS), base, AnalyzeOptions(budgets=(0, 200)))
    others = corpus(held_out) if held_out else None
    assert recommended_size(found, base, "pretoken", others) == curve.recommended_size
    assert (
        recommended_size(analyze(corpus(OUTPUTS), None, AnalyzeOptions()), base, "pretoken", others)
        is None
    )
