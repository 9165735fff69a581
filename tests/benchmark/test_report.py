"""The page of a bench."""

import pytest

from tasc.benchmark.results.page import render
from tests.benches import make_cell, make_results


def small_report(cell=(), reference=(), **settings):
    """Render the figures of one cell whose names are markup, but for what ``cell`` says."""
    text = {"text": "<img src=x>", "tokens": 1, "steps": 1, "ms": (1.0,)}
    results = make_results(
        make_cell(**{"model": "<b>m</b>", "outputs": [text], **dict(cell)}),
        references=("&",),
        settings=settings,
        reference=reference,
        examples=[{"sample": 0, "prompt": "<script>alert(1)</script>"}],
    )
    named = results.task.model_copy(update={"source": "<i>s</i>"})
    return render(results.model_copy(update={"task": named}))


def test_user_text_is_escaped_in_the_report():
    page = small_report()
    assert "<script>" not in page
    assert "<img" not in page
    assert "<i>s" not in page
    assert "<b>m" not in page


@pytest.mark.parametrize("name", ["a$x^{$b", "_hidden", "日本"])
def test_a_report_takes_any_name(name):
    assert f">{name} · ar<" in small_report(cell={"model": name, "accepted_by_position": (0.5,)})


SAMPLING = {"temperature": 0.9, "top_k": 0, "top_p": 1.0, "seed": 0, "verify": "sampled"}


def test_a_report_says_whether_it_was_sampled():
    assert "greedy;" in small_report()
    sampled = small_report(sampling=SAMPLING)
    assert "greedy;" not in sampled
    assert "sampled;" in sampled
