"""Every page with awkward text in it: escaped, whole without a script, and no wider than 360 px."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tasc.analysis.report import analyze
from tasc.benchmark.join import ReportOptions, join_results
from tasc.benchmark.pages.analysis import render as analysis_page
from tasc.benchmark.pages.bench import render as bench_page
from tasc.benchmark.pages.runs import render as joined_page
from tasc.benchmark.results.analysis import AnalysisResults, Verdict
from tasc.benchmark.results.bench import JoinedResults
from tasc.vocab.augment import augment
from tasc.vocab.augment import render as budget_page
from tasc.vocab.search.predict import predict_budgets
from tasc.vocab.trim import TrimPoint
from tests.benches import make_results, said
from tests.options import AnalyzeOptions, AugmentOptions
from tests.trees import ROOT
from tests.vocab.tiny import corpus, tokenizer

SHARED = ROOT / "tasc/report/templates"
TEMPLATES = {
    path.name: path.read_text()
    for path in sorted((ROOT / "tasc").rglob("templates/*.html"))
    if "{% extends " in path.read_text()
}
STYLES = {"page.css": (SHARED / "page.css").read_text()} | {
    name: "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))
    for name, text in TEMPLATES.items()
}
EVIL = "<b2 onload=alert(1)>&\"'</b2>"
TEXTS = (
    *(f"{EVIL} x", "w" * 400, "مرحبا بالعالم", "日本語の出力", "", "a\n  b", "\u202eback", "1,2"),
    *(f"intent: {EVIL} {n}" for n in range(4)),
)


def bench_results():
    spread = {"ms_per_sample_spread": {"p10": 1.0, "p50": 2.0, "p90": 3.0}}
    shown = {**spread, "accepted_by_position": (0.9, 0.5)}
    cells = [
        said(f"{EVIL}{'m' * 80}", list(TEXTS), [4.0] * 12, method=f"tasc-spec:width={n}", **shown)
        for n in range(12)
    ]
    marked = cells[3].outputs[0].model_copy(update={"accepted": ((0, 4),), "sources": ("prompt",)})
    cells[3] = cells[3].model_copy(update={"outputs": (marked, *cells[3].outputs[1:])})
    lost = said("lost", ["\ufffd"] * 12, [1.0] * 12, **spread)
    made = make_results(*cells, lost, references=TEXTS, prompts=TEXTS, command_line=EVIL)
    return made.model_copy(update={"task": made.task.model_copy(update={"source": EVIL})})


def joined_results(folder: Path) -> JoinedResults:
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "results.json").write_text(bench_results().model_dump_json())
    found = join_results(ReportOptions(runs=(str(folder / "one"), f"{EVIL[:9]}={folder / 'two'}")))
    assert isinstance(found, JoinedResults)
    return found


def analysis_results() -> AnalysisResults:
    options = AnalyzeOptions(new_tokens=(0, 10))
    found = analyze(corpus(list(TEXTS * 4)), tokenizer(), options)
    return AnalysisResults(
        **vars(found.report),
        budgets=predict_budgets(found.searched, tokenizer(), options).budgets,
        recommended_size=None,
        trim=(TrimPoint(4096, 10**6, 0.5, 1.9),),
        drafting=None,
        serving=None,
        verdict=Verdict("both", (EVIL,)),
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    options = AugmentOptions(new_tokens="auto")
    made = augment(corpus(list(TEXTS * 4)), tokenizer(), options, [*TEXTS])
    return {
        "analysis.html": analysis_page(analysis_results()),
        "budget.html": budget_page(made.report, EVIL),
        "report.html": bench_page(bench_results()),
        "runs.html": joined_page(joined_results(tmp_path_factory.mktemp("runs"))),
    }


class Page(HTMLParser):
    """What a page is made of; refuses what loads, runs, or was another's text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.ids, self.styles = [], set(), set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        assert tag not in {"script", "link", "img", "iframe", "object", "embed", "b2"}
        given = dict(attrs)
        assert not [name for name in given if name.startswith("on") or name in {"src", "hidden"}]
        assert tag == "a" or given.get("href", "#").startswith("#")
        self.tags.append(tag)
        self.links |= {given["href"]} if tag == "a" else set()
        self.ids |= {given.get("id")}
        self.styles.append(given.get("style") or "")


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_page_is_whole_by_itself_and_escapes_what_others_wrote(pages, name):
    page = Page(pages[name])
    assert page.tags.count("h1") == 1
    assert page.links <= {"samples.csv", "runs.csv"}  # what save() writes beside it
    assert "&lt;b2" in pages[name]
    assert "\u202e" not in pages[name]
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in pages[name]
    assert re.search(r"<title>[^<]+</title>", pages[name])


@pytest.mark.parametrize("name", TEMPLATES)
def test_only_a_filter_that_was_chosen_hides_something(pages, name):
    page, style = Page(pages[name]), STYLES["page.css"] + STYLES[name]
    hiding = re.findall(r"([^{}]*)\{[^}]*(?:display: none|visibility: hidden)", style)
    chosen = [re.findall(r"has\(#(\w+):checked\)", selector) for selector in hiding]
    assert all(chosen)
    assert {name for names in chosen for name in names} <= page.ids


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_table_may_be_scrolled(name):
    text = TEMPLATES[name] + (SHARED / "figures.html").read_text()
    assert text.count("<table") == len(re.findall(r'<div class="scroll"><table', text))


def widths(style: str) -> list[float]:
    style = re.sub(r"@media [^{]*|max-width: [^;}]*", "", style)
    style = re.sub(r"min\([^()]*100%\)", "", style)  # never wider than what it is in
    style = re.sub(r"minmax\(([^,]*),[^()]*\)", r"width: \1;", style)
    found = re.findall(r"(?:width|columns): ([^;}]*)", style)
    sizes = [re.findall(r"([\d.]+)(px|r?em)\b", value) for value in found]
    return [float(n) * (1 if unit == "px" else 16) for size in sizes for n, unit in size]


@pytest.mark.parametrize("name", STYLES)
def test_nothing_must_be_wider_than_a_telephone(pages, name):
    inline = ";".join(Page(pages[name]).styles) if name in pages else ""
    assert max(widths(STYLES[name] + inline), default=0) <= 360


def test_widths_are_found_where_they_are_given():
    assert widths("a { width: 30rem; max-width: 90rem; min-width: 400px }") == [480, 400]
    assert widths("a { columns: repeat(auto-fit, minmax(330px, 1fr)) }") == [330]
    assert widths("a { columns: minmax(min(40rem, 100%), 1fr) } @media (min-width: 56rem) {}") == []
