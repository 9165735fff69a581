"""The page of an analysis: whole, and with the user's text escaped."""

import re

import pytest

from tasc.analysis.report import analyze
from tasc.benchmark.pages.analysis import render
from tasc.report.charts import chart
from tasc.vocab.search.predict import predict_budgets
from tests.analysis.conftest import make_corpus, results_of
from tests.options import AnalyzeOptions
from tests.test_pages import Page


@pytest.mark.parametrize("with_tokens", [True, False])
def test_the_page_is_self_contained_and_escapes_user_text(tokenizer, with_tokens):
    rows = [(f"<script>alert({n})</script>", f"<b2>intent {n % 5}</b2> & more") for n in range(40)]
    options = AnalyzeOptions(new_tokens=(0, 10))
    found = analyze(make_corpus(rows), tokenizer if with_tokens else None, options)
    once = found.searched
    budgets = predict_budgets(once, tokenizer, options).budgets if once else ()
    text = render(results_of(found.report, "<b2>both</b2>", budgets))
    page = Page(text)
    assert page.tags.count("figure") == (4 if with_tokens else 2)
    assert all(link.startswith("#") for link in page.links)
    assert "&lt;b2&gt;both&lt;/b2&gt;" in text
    assert ("&lt;b2&gt;intent" in text) or not with_tokens
    assert "http" not in text


def test_a_chart_names_its_lines_and_follows_the_colours_of_the_page():
    drawn = chart("t", {"<a>": [(1, 0.5), (100, 1.0)], "none": []}, "x", "y", log="x", highest=1)
    assert drawn.names == ("<a>",)
    assert "var(--c0)" in drawn.svg
    assert not re.search("#c0c0|<a>|http|xmlns", drawn.svg)
    assert drawn == chart("t", {"<a>": [(1, 0.5), (100, 1.0)]}, "x", "y", log="x", highest=1)


def test_each_line_of_a_chart_is_drawn_and_unlike_the_others():
    lines = {f"line {n}": [(0, n), (1, n + 1)] for n in range(14)}
    drawn = chart("t", lines, "x", "y")
    assert len(re.findall(r"stroke: var\(--c\d\)", drawn.svg)) == 14
    assert [name for name, _, _ in drawn.key] == list(lines)
    assert len({(colour, stroke) for _, colour, stroke in drawn.key}) == 14


def test_a_line_of_one_point_is_seen_and_one_of_none_left_out():
    assert chart("t", {"a": [(0, 0)]}, "x", "y").names == ("a",)
    assert chart("t", {}, "x", "y").names == ()
    assert re.findall(r"<use[^>]*fill: var\(--c0\)", chart("t", {"a": [(1, 1)]}, "x", "y").svg)
    line = [(1, 1), (2, 1)]
    assert not re.findall(r"<use[^>]*fill: var", chart("t", {"a": line}, "x", "y").svg)


def test_counts_have_whole_ticks():
    def ticks(last):
        svg = chart("t", {"a": [(1, 0), (last, 9)]}, "x", "y").svg
        return re.findall(r"<text[^>]*>([^<]*)</text>", svg.partition(">x</text>")[0])

    assert ticks(3) == ["0", "1", "2", "3"]
    assert "0.5" in ticks(2.5)


def test_charts_of_one_page_share_no_id():
    first, second = (chart("t", {"a": [(1, n), (2, 5)]}, "x", "y").svg for n in (1, 2))
    shared = set(re.findall(r'id="([^"]*)"', first)) & set(re.findall(r'id="([^"]*)"', second))
    assert all(f"#{name}" in first for name in shared)  # a shape, the same in both
