"""Choosing a budget: the curve, the recommended_size, and the cost of a row."""

import dataclasses
import json
from collections import Counter
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from tasc.analysis.outputs import Outputs, encode_outputs
from tasc.analysis.report import analyze
from tasc.backend import MergeRequest, merge_search
from tasc.commands.analysis import tokens_in_use
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.errors import InputError
from tasc.models.embeddings import keep_rows
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer
from tasc.vocab.augment import render
from tasc.vocab.report import OutputSizes
from tasc.vocab.search.budget import Sightings, budget_curve, replayed
from tasc.vocab.search.embedding_cost import EmbeddingCost, embedding_cost
from tasc.vocab.search.predict import predict_budgets
from tasc.vocab.search.selection import live_tokens, select, steps
from tasc.vocab.trim import predict_trim
from tests.options import AnalyzeOptions, replace
from tests.pico import build_model
from tests.vocab.tiny import added, corpus, outputs, tokenizer

OUTPUTS = outputs(54)


def search(outputs, vocabulary=(b"a", b"b", b"ab", b"ba", b"c"), **options):
    return merge_search(
        MergeRequest(
            tokens=outputs.encoded.tokens,
            offsets=outputs.encoded.offsets,
            weights=outputs.weights,
            boundaries=outputs.boundaries,
            vocabulary=vocabulary,
            **{"special": frozenset(), "budget": 20, "alpha_pcs": 1.1, **options},
        )
    )


@cache
def searched(held_out=(), rows=None, price=10.0):
    base = tokenizer()
    train = encode_outputs(OUTPUTS, base, "pretoken")
    result = search(train, base.vocabulary(), special=base.special_ids, budget=200, alpha_pcs=0.05)
    others = encode_outputs(held_out, base, "pretoken") if held_out else None
    return base, result, budget_curve(result, len(base.vocabulary()), train, others, rows, price)


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
    rows = EmbeddingCost(parameters=128, step_share=0.001, total=1)
    _, _, curve = searched(rows=rows, held_out=tuple(OUTPUTS[::3]))
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
    slow = EmbeddingCost(parameters=1, step_share=0.05, total=1)
    assert searched(rows=slow, price=1.0)[2].recommended_size.budget < sizes[1]


def test_held_out_steps_are_those_of_the_replayed_merges():
    _, _, curve = searched(held_out=tuple(OUTPUTS))
    for point in curve.points:
        assert point.held_out_steps == pytest.approx(point.train_steps)


@pytest.mark.parametrize("export", ["pretoken", "added"])
def test_auto_takes_the_recommended_size_and_reports_the_curve(export):
    made = added(OUTPUTS, OUTPUTS[::5], new_tokens="auto", export=export)
    assert len(made.tokens) == made.report.curve.recommended_size.budget > 0
    assert made.report.curve.points[-1].budget > len(made.tokens)
    assert made.to_dict()["seen"]["least"] >= 1
    page = render(made.report, "<script>alert(1)</script>")
    assert "<script" not in page
    assert page.count("<svg") == 3


def test_auto_adds_a_few_where_no_token_pays():
    made = added(OUTPUTS, new_tokens="auto", overfit_penalty=1e6)
    assert made.report.curve.recommended_size.budget == 0
    assert len(made.tokens) == min(50, made.report.curve.points[-1].budget) > 0
    with pytest.raises(InputError, match="no n-gram recurs in the outputs, so no token can be"):
        added(["x"] * 3, new_tokens="auto")


@pytest.mark.parametrize(("tied", "rows"), [(True, 1), (False, 2)])
def test_a_row_costs_its_width_and_its_share_of_the_weights(tmp_path, tied, rows):
    # The feed-forward layers are as high as the vocabulary, and are no embeddings for that.
    model = build_model("qwen2", vocabulary=128, hidden=64, tied=tied)
    model.save_pretrained(tmp_path)
    looked_up = 0 if tied else 128 * 64
    expected = EmbeddingCost(
        64 * rows, 64 / (model.num_parameters() - looked_up), model.num_parameters()
    )
    assert embedding_cost(tmp_path) == expected
    assert embedding_cost(tmp_path / "none") is None
    stated = json.loads((tmp_path / "config.json").read_text())
    del stated["tie_word_embeddings"]  # left out where it is what the kind of model has anyway
    (tmp_path / "config.json").write_text(json.dumps(stated))
    assert embedding_cost(tmp_path) == expected
    (tmp_path / "config.json").write_text("[]")
    assert embedding_cost(tmp_path) is None


FEW = [*["kind: late parcel", "kind: lost parcel"] * 9, "Q"]
GRID = AnalyzeOptions(new_tokens=(0, 1, 4, 12, 30, 9000))


@pytest.mark.parametrize("measured", [0, 7])
@pytest.mark.parametrize("export", ["pretoken", "added"])
@pytest.mark.parametrize("texts", [OUTPUTS, FEW])
def test_an_analysis_predicts_what_augment_adds_and_reaches(texts, export, measured):
    held_out = texts[:measured]
    base, options = tokenizer(), replace(GRID, export=export)
    found = predict_budgets(encode_outputs(texts, base, export), base, options, held_out)
    assert [point.budget for point in found.budgets[:2]] == [0, 1]
    for point in found.budgets[1:]:
        made = added(texts, held_out, new_tokens=point.budget, export=export)
        assert point.added == len(made.tokens)
        # In further rounds the saved tokenizer did without a token, and took the next best.
        assert made.report.rounds == 1 or export == "added"
        if made.report.rounds == 1:
            assert point.tokens_per_output == made.report.train.tokens["predicted"] / len(texts)
            assert point.h2_bits == made.report.h2["after"]
    auto = added(texts, held_out, new_tokens="auto", export=export)
    assert found.recommended_size == auto.report.curve.recommended_size
    if auto.report.rounds == 1:
        judged = auto.report.held_out or auto.report.train
        steps = [judged.tokens[when] / judged.outputs + 1 for when in ("before", "predicted")]
        assert found.step_ratio == pytest.approx(steps[0] / steps[1])


def test_the_grid_ends_at_the_largest_budget_that_augment_takes():
    base = tokenizer()
    last = predict_budgets(encode_outputs(OUTPUTS, base, "pretoken"), base, GRID).budgets[-1]
    assert last.added == last.budget < 9000
    with pytest.raises(InputError, match=f"use --new-tokens {last.budget} or auto"):
        added(OUTPUTS, new_tokens=last.budget + 1)
    few = predict_budgets(encode_outputs(FEW, base, "pretoken"), base, GRID).budgets
    assert [(point.budget, point.added) for point in few] == [(0, 0), (1, 1), (4, 2)]


def test_every_budget_saves_more_and_the_first_nothing():
    base, options = tokenizer(), AnalyzeOptions(new_tokens=(0, 5, 10, 20))
    found = analyze(corpus(OUTPUTS), base, options)
    points = predict_budgets(found.searched, base, options).budgets
    assert [point.budget for point in points] == [0, 5, 10, 20]
    before, first = found.report.tokens.output, points[0]
    entropies = before.ngrams[0].entropy_bits, before.ngrams[0].renyi2_bits
    sizes = before.tokens_per_sample, before.bytes_per_token
    assert (first.tokens_per_output, first.bytes_per_token) == pytest.approx(sizes)
    assert (first.h1_bits, first.h2_bits) == pytest.approx(entropies)
    assert first.step_ratio == 1
    for low, high in pairwise(points):
        assert high.tokens_per_output < low.tokens_per_output
        saved = (first.tokens_per_output + 1) / (high.tokens_per_output + 1)
        assert high.step_ratio == pytest.approx(saved)


def test_a_tokenizer_that_does_not_take_the_export_is_told_of():
    made = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    base = LoadedTokenizer(made, "words")
    found = predict_budgets(encode_outputs(["a b"] * 3, base, "pretoken"), base, GRID)
    assert found.budgets == ()
    assert "use --export added" in found.refused


def test_real_intents_compress_as_the_literature_says(data_dir, real_tokenizer):
    base, options = real_tokenizer("gpt2"), AnalyzeOptions(new_tokens=(0, 250))
    texts = load(Source(str(data_dir / "massive-en")), "train").outputs
    found = predict_budgets(encode_outputs(texts, base, "pretoken"), base, options)
    assert found.budgets[-1].step_ratio > 3.5


@pytest.mark.parametrize("tied", [True, False])
def test_a_smaller_vocabulary_is_predicted_by_the_weights_of_a_step(tmp_path, tied):
    model = build_model("qwen2", vocabulary=5000, hidden=64, tied=tied)
    model.save_pretrained(tmp_path)
    cost = embedding_cost(tmp_path)
    assert cost is not None
    base = tokenizer(size=330)
    base.tokenizer.add_tokens([f"<{i}>" for i in range(5000 - len(base.vocabulary()))])
    base = dataclasses.replace(base)  # which has not looked at its tokens yet
    (point,) = predict_trim(cost, base, used=range(700))
    keep_rows(model, range(4096))
    assert (point.rows, point.parameters) == (4096, model.num_parameters())
    looked_up = 0 if tied else 64
    read = [cost.total - looked_up * 5000, point.parameters - looked_up * 4096]
    assert point.step_ratio == pytest.approx(read[0] / read[1])
    assert predict_trim(cost, base, used=range(900, 4950)) == ()  # and bytes


@pytest.mark.parametrize(
    ("template", "shown"), [("{input}\n", "red old tall"), ("{input:.4}", "red ")]
)
def test_tokens_that_a_template_cuts_from_inputs_are_not_in_use(tmp_path, template, shown):
    file, base = tmp_path / "train.jsonl", tokenizer()
    file.write_text(json.dumps({"input": "red old tall", "output": "paint"}))
    stream = load(Source(str(file), template=template), "train")
    used = tokens_in_use(base, analyze(stream, base, AnalyzeOptions()), stream)
    assert set(used) - {base.eos_id} == set(base.encode([shown, "paint"]).tokens.tolist())


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_replaying_a_search_gives_its_token_counts(seed):
    rng = np.random.default_rng(seed)
    encoded = Encoded.of([rng.integers(0, 5, rng.integers(0, 60)) for _ in range(8)])
    weights = rng.integers(1, 4, 8)
    boundaries = rng.integers(0, 2, len(encoded.tokens)).astype(np.uint8) if seed % 2 else None
    outputs = Outputs([], weights, encoded, boundaries)
    found = search(outputs)
    counts = [found.tokens_before, *(merge.tokens for merge in found.merges)]
    assert replayed(found, outputs) == counts


def merged(ids, step):
    out = []
    while ids:
        n = len(step.ids) if tuple(ids[: len(step.ids)]) == step.ids else 1
        out.append(step.new_id if n > 1 else ids[0])
        ids = ids[n:]
    return out


few = st.lists(st.integers(0, 3), min_size=1, max_size=6)
repeating = st.builds(lambda begin, times, end: begin * times + end, few, st.integers(1, 5), few)


@settings(max_examples=150, deadline=None)
@given(st.lists(repeating, min_size=1, max_size=5))
def test_what_stands_after_a_merge_is_what_the_samples_then_hold(samples):
    found = search(Outputs([], np.arange(1, len(samples) + 1), Encoded.of(samples), None))
    for length, (_, live) in enumerate(live_tokens(found, 5), start=1):
        counts = Counter()
        for weight, ids in enumerate(samples, start=1):
            for step in steps(found, length):
                ids = merged(ids, step)
            for t in ids:
                counts[t] += weight
        assert live == {t: n for t, n in counts.items() if t > 4 and n > 1}


def test_figures_are_per_output_and_per_token():
    tokens = {"before": 40, "predicted": 12, "reached": 10}
    sizes = OutputSizes.of(4, 120, tokens, 4)
    assert sizes.tokens_per_output == {"before": 10.0, "predicted": 3.0, "reached": 2.5}
    assert sizes.bytes_per_token == {"before": 3.0, "predicted": 10.0, "reached": 12.0}
    assert (sizes.ratio, sizes.new_token_uses) == (4.0, 4)
