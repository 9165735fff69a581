"""Which text of an output was accepted of drafts, and what it was drafted from."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasc.benchmark.matrix import Measured
from tasc.benchmark.pages.bench import render
from tasc.benchmark.pages.samples import pieces
from tasc.benchmark.record import accepted_spans
from tasc.benchmark.results.cells import DraftedFrom
from tasc.decoding.core.generation import Generation
from tasc.decoding.core.protocols import SOURCES
from tasc.decoding.drafters import DRAFTERS, Resources, parse
from tests.benches import make_results, said

TEXT = "né 日x"


def decode(tokens: list[int]) -> str:
    return bytes(tokens).decode(errors="replace")


def made(text: str, accepted: list[int]) -> Generation:
    return Generation(np.frombuffer(text.encode(), np.uint8).astype(np.int32), [], accepted)


def test_a_step_is_its_accepted_tokens_and_one_more():
    spans = accepted_spans(made("abcdefg", [2, 0, 1]), decode, "prompt")
    assert list(spans) == [(1, 3, "prompt"), (5, 6, "prompt")]
    assert list(accepted_spans(made("abc", [0, 0]), decode)) == []


def test_a_character_counts_where_its_last_token_is():
    # n | c3 a9 (accepted) space | e6 97 (accepted) a5 | x
    assert list(accepted_spans(made(TEXT, [2, 2, 0]), decode)) == [(1, 2, "other")]


def test_spans_end_where_another_source_begins():
    told = made("abcdefg", [4, 1])
    told.sources = np.array([4, 0, 0, 2, 4, 1, 3], np.uint8)
    spans = accepted_spans(told, decode, "draft head")
    expected = [(1, 3, "corpus"), (3, 4, "prompt"), (4, 5, "draft head"), (6, 7, "logits")]
    assert list(spans) == expected


def test_a_checkpoint_holds_generations_with_their_sources(tmp_path):
    made_twice = [made("abc", [1, 0]), made("abc", [1, 0])]
    made_twice[1].sources = np.array([4, 0, 2], np.uint8)
    Measured(tmp_path, resume=False)[0, 0, 0] = made_twice
    without, again = Measured(tmp_path, resume=True)[0, 0, 0]
    assert without.sources is None
    assert (again.tokens.tolist(), again.tokens.dtype) == ([97, 98, 99], np.int32)
    assert again.sources is not None
    assert again.sources.tolist() == [4, 0, 2]
    assert again.sources.dtype == np.uint8


@pytest.mark.parametrize("method", DRAFTERS)
def test_each_method_says_what_it_drafts_from_in_words_of_the_results(method):
    assert parse(method).source(None) in get_args(DraftedFrom)
    assert set(SOURCES) <= set(get_args(DraftedFrom))


def test_a_draft_model_that_is_none_is_the_corpus():
    resources = Resources((), 0)
    assert parse("slem").source(resources) == "corpus"
    assert parse("eagle").source(resources) == "draft head"


@given(st.text("aé日🎈", min_size=1, max_size=12), st.lists(st.integers(0, 3), max_size=30))
def test_spans_are_ordered_and_inside_of_the_text(text, accepted):
    spans = list(accepted_spans(made(text, accepted), decode))
    flat = [at for span in spans for at in span[:2]]
    assert flat == sorted(flat)
    assert all(begin < end <= len(text) for begin, end, _ in spans)


def test_the_page_marks_accepted_text_by_its_source_and_escapes_it():
    cell = said("m", ["<b>def"], [1.0], method="tasc-spec")
    told = {"accepted": ((0, 2), (4, 6)), "sources": ("past outputs", "logits")}
    output = cell.outputs[0].model_copy(update=told)
    results = make_results(cell.model_copy(update={"outputs": (output,)}))
    expected = [("", ""), ("<b", "past outputs"), (">d", ""), ("ef", "logits"), ("", "")]
    assert list(pieces(output)) == expected
    page = render(results)
    first = '<mark class="past-outputs" title="drafted from: past outputs">'
    second = '<mark class="logits" title="drafted from: logits">'
    assert f"<pre>{first}&lt;b</mark>&gt;d{second}ef</mark></pre>" in page
    assert f"Drafted from: <span>{first}past outputs</mark></span><span>{second}logits<" in page


def test_results_without_sources_are_read_and_shown():
    cell = said("m", ["abc"], [1.0], method="tasc-spec")
    output = cell.outputs[0].model_copy(update={"accepted": ((0, 2),)})
    page = render(make_results(cell.model_copy(update={"outputs": (output,)})))
    assert '<mark class="other" title="drafted from: other">ab</mark>c' in page


def test_every_source_has_a_colour_on_the_page():
    css = (Path(__file__).parents[2] / "tasc/report/templates/page.css").read_text()
    assert len(get_args(DraftedFrom)) == 7
    for source in get_args(DraftedFrom):
        assert f"mark.{source.replace(' ', '-')} {{" in css
