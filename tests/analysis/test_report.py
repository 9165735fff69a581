"""The whole analysis: grids, token statistics, and a report that is plain data."""

import json

import numpy as np
import pytest

from tasc.analysis.entropy import renyi_bits
from tasc.analysis.outputs import Distinct, Outputs
from tasc.analysis.report import TaskReport, analyze
from tasc.analysis.tokens import expand, merged_counts, request
from tasc.backend import merge_search
from tasc.benchmark.results.analysis import AnalysisResults
from tasc.errors import InputError
from tests.analysis.conftest import make_corpus, results_of
from tests.options import AnalyzeOptions

INTENTS = ("play_music", "set_alarm", "weather", "lights_off")


@pytest.fixture
def corpus():
    rows = [
        (f"utterance number {n} about {INTENTS[n % 4]}", f"intent: {INTENTS[n % 4]}, slot: {n % 5}")
        for n in range(60)
    ]
    return make_corpus(rows)


def test_expanding_gives_what_encoding_everything_gives(tokenizer):
    texts = ["play music", "", "set", "é"]
    positions = np.array([0, 1, 2, 0, 3])
    expanded = expand(tokenizer.encode(texts), positions)
    wanted = tokenizer.encode([texts[position] for position in positions])
    assert np.array_equal(expanded.tokens, wanted.tokens)
    assert np.array_equal(expanded.offsets, wanted.offsets)


def test_a_report_without_a_tokenizer_looks_at_words_only(corpus):
    report = analyze(corpus, None, AnalyzeOptions()).report
    assert (report.tokens, report.distinct_outputs, report.output.words) == (None, 20, 240)
    change = report.output.bigrams.entropy_bits / report.input.bigrams.entropy_bits - 1
    assert report.entropy_change == pytest.approx(change)
    assert report.coverage_ratio == report.input.bigrams.n80 / report.output.bigrams.n80


def test_inputs_without_entropy_do_not_divide_by_it():
    report = analyze(make_corpus([("", "a b c"), ("", "d e f")]), None, AnalyzeOptions()).report
    assert (report.entropy_change, report.coverage_ratio) == (0, 0)


def test_token_counts_after_merging_add_up_to_the_search_s_own(corpus, tokenizer):
    texts, weights = np.unique(corpus.outputs, return_counts=True)
    once = Outputs.encode(Distinct(texts.tolist(), weights), tokenizer, "added")
    spread = np.repeat(weights, np.diff(once.encoded.offsets))
    before = np.bincount(once.encoded.tokens, spread, 320).astype(np.int64)
    result = merge_search(request(once, tokenizer, 30, AnalyzeOptions(export="added")))
    assert len(result.merges) > 10
    for budget in range(len(result.merges) + 1):
        after = merged_counts(before, result, budget)
        assert after.min() >= 0
        wanted = result.merges[budget - 1] if budget else None
        assert after.sum() == (wanted.tokens if wanted else result.tokens_before)
        assert renyi_bits(after) == pytest.approx(wanted.h2 if wanted else result.h2_before)


def test_valuable_ngrams_come_with_what_stands_around_them(corpus, tokenizer):
    report = analyze(corpus, tokenizer, AnalyzeOptions(new_tokens=(10,))).report
    top_merges = report.tokens.top_merges
    assert top_merges[0].saved >= top_merges[1].saved
    for entry in top_merges:
        assert entry.example[1] == entry.text
        assert any("".join(entry.example) in output for output in corpus.outputs)


def test_the_boundaries_are_for_the_pretoken_export_only(corpus, tokenizer):
    repeated = Distinct(sorted(set(corpus.outputs)), np.full(20, 3))
    assert Outputs.encode(repeated, tokenizer, "added").boundaries is None
    once = Outputs.encode(repeated, tokenizer, "pretoken")
    assert len(once.boundaries) == len(once.encoded.tokens)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"export": "other"}, "should be 'pretoken' or 'added'"),
        ({"new_tokens": ()}, "at least 1 item"),
        ({"new_tokens": (-1,)}, "new_tokens.0: input should be greater than or equal to 0"),
    ],
)
def test_options_that_mean_nothing_are_refused(corpus, tokenizer, options, words):
    with pytest.raises(InputError, match=words):
        analyze(corpus, tokenizer, AnalyzeOptions(**options))


def test_the_report_is_plain_data_with_short_curves(corpus, tokenizer):
    report = analyze(corpus, tokenizer, AnalyzeOptions(new_tokens=(0, 5))).report
    assert isinstance(report, TaskReport)
    results = results_of(report, "both")
    plain = json.loads(json.dumps(results.to_dict(), allow_nan=False))
    assert AnalysisResults.model_validate(plain) == results
    assert plain["samples"] == 60
    sides = [plain["input"], plain["output"], plain["tokens"]["input"], plain["tokens"]["output"]]
    for side in sides:
        assert [row["n"] for row in side["ngrams"]] == [1, 2, 3, 4]
        assert all(len(row["curve"]) <= 200 for row in side["ngrams"])


def test_progress_is_told_of_each_stage(corpus, tokenizer):
    calls = []
    options = AnalyzeOptions(new_tokens=(0, 5))
    analyze(corpus, tokenizer, options, progress=lambda *call: calls.append(call))
    assert {"read", "merge counts", "merge search"} <= {name for name, _, _ in calls}
    assert ("read", 60, 0) in calls
