"""The page of an analysis: whole, and with the user's text escaped."""

from html.parser import HTMLParser
from typing import Any

import pytest

from tasc.analysis.report import analyze
from tasc.bench.results.analysis import AnalysisResults
from tasc.bench.verdict import Verdict
from tasc.charts import chart
from tasc.recipe.analysis_page import render
from tests.options import AnalyzeOptions


class Tags(HTMLParser):
    """Counts tags, and refuses what would load or run something."""

    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        assert tag not in {"script", "link", "img", "iframe", "b2"}
        assert not {name for name, _ in attrs} & {"src", "href", "onload", "onclick"}
        self.tags.append(tag)


@pytest.mark.parametrize("with_tokens", [True, False])
def test_the_page_is_self_contained_and_escapes_user_text(make_corpus, tokenizer, with_tokens):
    rows = [(f"<script>alert({n})</script>", f"<b2>intent {n % 5}</b2> & more") for n in range(40)]
    options = AnalyzeOptions(budgets=(0, 10))
    report = analyze(make_corpus(rows), tokenizer if with_tokens else None, options).report
    choice: Any = "<b2>both</b2>"
    made = Verdict(choice, ("because",))
    page = render(AnalysisResults(**vars(report), knee=None, drafting=None, verdict=made))
    found = Tags()
    found.feed(page)
    assert found.tags.count("figure") == (4 if with_tokens else 2)
    assert "&lt;b2&gt;both&lt;/b2&gt;" in page
    assert ("&lt;b2&gt;intent" in page) or not with_tokens
    assert "http" not in page


def test_a_chart_puts_points_where_its_axes_say():
    drawn = chart("t", {"a": [(1, 0.5), (100, 1.0)]}, "x", "y", log="x", highest=1)
    (at_one, one), *_, (at_hundred, hundred) = drawn.x_ticks
    assert (one, hundred) == ("1", "100")
    points = [tuple(map(float, p.split(","))) for p in drawn.lines[0][1].split()]
    assert (points[0][0], points[1][0]) == pytest.approx((at_one, at_hundred), abs=0.1)
    heights = {text: at for at, text in drawn.y_ticks}
    assert (points[0][1] + 0) == pytest.approx((heights["0"] + heights["1"]) / 2, abs=0.1)
    assert chart("t", {"a": [(0, 0)]}, "x", "y").lines[0][1]


def test_a_logarithmic_height_begins_at_one():
    drawn = chart("t", {"a": [(0, 1), (1, 10), (2, 100)]}, "x", "y", log="y")
    heights = [float(p.split(",")[1]) for p in drawn.lines[0][1].split()]
    assert heights == pytest.approx([at for at, _ in drawn.y_ticks], abs=0.1)
    assert heights[1] == pytest.approx((heights[0] + heights[2]) / 2, abs=0.1)
