"""Which text of an output was accepted of drafts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasc.benchmark.record import accepted_spans
from tasc.benchmark.results.page import render
from tasc.benchmark.results.samples import sample_views
from tasc.decoding.core.generation import Generation
from tests.benches import make_results, said

TEXT = "né 日x"


def decode(tokens: list[int]) -> str:
    return bytes(tokens).decode(errors="replace")


def made(text: str, accepted: list[int]) -> Generation:
    return Generation(np.frombuffer(text.encode(), np.uint8).astype(np.int32), [], accepted)


def test_a_step_is_its_accepted_tokens_and_one_more():
    assert list(accepted_spans(made("abcdefg", [2, 0, 1]), decode)) == [(1, 3), (5, 6)]
    assert list(accepted_spans(made("abc", [0, 0]), decode)) == []


def test_a_character_counts_where_its_last_token_is():
    # n | c3 a9 (accepted) space | e6 97 (accepted) a5 | x
    assert list(accepted_spans(made(TEXT, [2, 2, 0]), decode)) == [(1, 2)]


@given(st.text("aé日🎈", min_size=1, max_size=12), st.lists(st.integers(0, 3), max_size=30))
def test_spans_are_ordered_and_inside_of_the_text(text, accepted):
    spans = list(accepted_spans(made(text, accepted), decode))
    flat = [at for span in spans for at in span]
    assert flat == sorted(flat)
    assert all(begin < end <= len(text) for begin, end in spans)


def test_the_page_marks_accepted_text_and_escapes_it():
    cell = said("m", ["<b>def"], [1.0], method="tasc-spec")
    output = cell.outputs[0].model_copy(update={"accepted": ((0, 2), (4, 6))})
    results = make_results(cell.model_copy(update={"outputs": (output,)}))
    (view,) = sample_views(results)
    pieces = view.models[0].cells[0].pieces
    assert pieces == (("", False), ("<b", True), (">d", False), ("ef", True), ("", False))
    assert "<pre><mark>&lt;b</mark>&gt;d<mark>ef</mark></pre>" in render(results)
