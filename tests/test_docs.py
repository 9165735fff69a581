"""The site: pages use the field's terms, links work, and every command and method has its entry."""

import itertools
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

import tasc
from benchmarks.layout import layout
from docs import hooks
from docs.generate import commands, pages, results
from tasc.benchmark.metrics import METRICS
from tasc.commands.plan import RunOptions, read
from tasc.commands.registry import STEPS, step_options
from tasc.commands.steps import names
from tasc.decoding.drafters import DRAFTERS, parse
from tasc.decoding.verify import VERIFIERS
from tasc.options.task import read_task
from tasc.report.markdown import table
from tests.cli import COMMANDS
from tests.data.test_chat_template import CHATML
from tests.pico import continued, make_model, make_tokenizer
from tests.recipes import ROWS, write
from tests.trees import ROOT

DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(DOCS)): path.read_text() for path in sorted(DOCS.rglob("*.md"))}


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    """Every page, by its path from docs/, including the pages from the root."""
    outside = [name for name in hooks.OUTSIDE if name.endswith(".md")]
    return PAGES | {name: (DOCS / name).read_text() for name in outside}


def without_code(markdown: str) -> str:
    return re.sub(r"<!--.*?-->|^ *```.*?^ *```", "", markdown, flags=re.DOTALL | re.MULTILINE)


def github_anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def site_anchor(heading: str) -> str:
    """Return what Python-Markdown makes of an ASCII heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def anchors(markdown: str) -> set[str]:
    """Return the anchors that lead to the same heading on GitHub and on the site."""
    headings = re.findall(r"^#+ (.+)$", without_code(markdown), re.MULTILINE)
    return {github_anchor(text) for text in headings if github_anchor(text) == site_anchor(text)}


def test_links_of_pages_lead_to_a_file_and_a_heading_on_github_and_on_the_site(site):
    files = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*") if path.is_file()}
    checked = 0
    for page, text in site.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            there = os.path.normpath(Path(page).parent / name) if name else page
            assert there in files | hooks.OUTSIDE.keys(), f"{page} links to {link}"
            assert not anchor or anchor in anchors(site[there]), f"{page} links to {link}"
            checked += 1
    assert checked > 100


def test_headings_have_no_attributes_which_github_would_show(site):
    shown = {page: re.findall(r"^#.*\{.*", without_code(text), re.M) for page, text in site.items()}
    assert not {page: found for page, found in shown.items() if found}


def test_links_of_the_readme_lead_to_a_file_and_a_heading(site):
    links = re.findall(r"(?:\]\(|src=\")([^)\"\s]+)", (ROOT / "README.md").read_text())
    assert links
    for link in links:
        name, _, anchor = link.partition("#")
        assert (ROOT / name).is_file(), link
        assert not anchor or anchor in anchors(site[name.removeprefix("docs/")]), link


def test_tables_are_current():
    outdated = [str(path.relative_to(ROOT)) for path in pages.outdated()]
    assert not outdated, (
        f"{', '.join(outdated)}: outdated: run make style (python -m docs.generate)"
    )


def test_figures_of_the_readme_are_those_of_the_result_file():
    cells = json.loads((results.FOLDER / "smollm2-massive.json").read_text())["cells"]
    first = cells[0]["ms_per_sample"]
    rows = re.findall(r"^\|.*×.*\|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    ways = [
        ("baseline", "ar"),
        ("baseline", "tasc-spec"),
        ("tasc-ft", "ar"),
        ("tasc-ft", "tasc-spec"),
    ]
    assert len(rows) == len(ways)
    for row, way in zip(rows, ways, strict=True):
        (cell,) = [cell for cell in cells if (cell["model"], cell["method"]) == way]
        name, speed, exact, same = (part.strip() for part in row.strip("|").split("|"))
        assert ("drafts" in name or "both" in name) == (way[1] == "tasc-spec")
        times, ms = map(float, re.findall(r"[\d.]+", speed))
        assert ms == round(cell["ms_per_sample"])
        assert times == pytest.approx(first / cell["ms_per_sample"], abs=0.005)
        correct = cell["quality"]["exact_match"]
        assert float(exact.removesuffix(" %")) == pytest.approx(100 * correct, abs=0.05)
        equal, of = (cell["lossless"][key] for key in ("identical", "of"))
        assert same.endswith(f", {equal} of {of}") == (way[1] == "tasc-spec")


def test_the_code_of_the_readme_prints_what_transformers_generates(tmp_path, capsys, monkeypatch):
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    folder = make_model(make_tokenizer(tmp_path))
    (folder / "chat_template.jinja").write_text(CHATML)
    load = tasc.load
    monkeypatch.setattr(tasc, "load", lambda name: load({"smollm2": folder}[name], "float32"))
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert len(names["prompts"]) > 1
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    printed = capsys.readouterr().out
    for prompt in names["prompts"]:
        tokens = continued(model, np.array(prompt), new_tokens=256)
        text = tokenizer.decode(tokens, skip_special_tokens=True)
        assert re.search(
            rf"^{len(tokens)} tokens in \d+ forwards: {re.escape(text)}", printed, re.M
        )


def test_every_command_has_a_page_of_the_guide_and_its_options(site):
    def section(title):
        _, _, below = site["reference/options.md"].partition(f"\n## {title}\n")
        return below.partition("\n## ")[0]

    for name, command in COMMANDS.items():
        page = commands.page(name)
        path, _, anchor = page.partition("#")
        assert f"options.md#tasc-{name}" in site[f"guide/{path}"]
        assert not anchor or f"\n## tasc {name}\n" in site[f"guide/{path}"]
        assert f"]({page})" in site["guide/index.md"]
        listed = section(f"tasc {name}") + section("Shared options")
        for flag in command.params:
            shown = flag.opts[0] if flag.param_type_name == "option" else flag.name.upper()
            assert f"`{shown}`" in listed
        fields = step_options(name).model_fields if name in STEPS else {}
        for field in fields.keys() - {"source"}:
            shown = (f"`{field}`", f"`--{field.replace('_', '-')}`", f"`{field.upper()}`")
            assert any(text in listed for text in shown), f"{name}: {field}"


def test_every_method_metric_verifier_and_recipe_has_its_entry(site):
    methods, others = site["reference/methods.md"], site["reference/metrics.md"]
    for name in DRAFTERS:
        assert f"\n## {name}\n" in methods
    for name in [*METRICS, *VERIFIERS]:
        assert f"| `{name}` |" in others
    for name in names():
        assert f"| `{name}` |" in site["reference/recipes.md"]


TEXTS = [*PAGES.values(), (ROOT / "README.md").read_text()]


def blocks(language: str) -> list[str]:
    """Return the code blocks of a language, or without one, in all pages and in the README."""
    fenced = re.compile(r"^```(.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    return [code for text in TEXTS for kind, code in fenced.findall(text) if kind == language]


def test_a_command_on_a_page_has_only_existing_options():
    lines = [line for block in blocks("") for line in block.splitlines()]
    lines += [line for text in TEXTS for line in re.findall(r"`(tasc [a-z]+ --[^`\n]*)`", text)]
    checked = set()
    for line in (line for line in lines if line.startswith("tasc ")):
        name, *words = shlex.split(line.partition("#")[0])[1:]
        known = {o for flag in COMMANDS[name].params for o in (*flag.opts, *flag.secondary_opts)}
        asked = {word for word in words if word.startswith("--")}
        assert asked <= known, line
        for before, word in itertools.pairwise(words):
            if before == "--method":
                parse(word)
        checked.add(name)
    assert checked == COMMANDS.keys()


def test_a_recipe_or_a_task_file_on_a_page_is_valid(tmp_path):
    for split in ("train", "validation", "test"):
        write(tmp_path / "my-task" / f"{split}.jsonl", ROWS)
    files = blocks("yaml")
    assert files
    for number, block in enumerate(files):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block)
        if "steps" in yaml.safe_load(block):
            assert read(path, RunOptions(data_dir=tmp_path)).steps
        else:
            assert read_task(path, {}).path


def test_every_page_is_in_the_menu(site):
    def leaves(entry):
        if isinstance(entry, str):
            return {entry}
        parts = entry.values() if isinstance(entry, dict) else entry
        return set().union(*map(leaves, parts))

    menu = re.search(r"^nav:.*", (ROOT / "mkdocs.yml").read_text(), re.DOTALL | re.MULTILINE)
    assert leaves(yaml.safe_load(menu[0])["nav"]) == site.keys()


def test_the_description_of_a_field_takes_precedence_over_the_help_of_its_flag():
    from pydantic import Field, create_model

    kind = create_model("K", threads=(int, Field(2, ge=1, le=8, description="How many at once.")))
    flag = next(p for p in COMMANDS["analyze"].params if p.name == "threads")
    line = commands._line("threads", kind.model_fields["threads"], flag)
    assert line == ["`--threads`", "integer, ≥ 1, ≤ 8", "`2`", "How many at once."]


CONTENT = {
    "environment": {
        "tasc": "1",
        "git": "abc+",
        "python": "3",
        "packages": {"torch": "2", "transformers": "5"},
        "machine": {"processor": "P", "cores": 2, "system": "Linux"},
    },
    "command": ["bench.py", "--text", "two words"],
    "threads": 1,
    "runs": {"quick": [{"s": 1.25, "all": [3, 1]}], "slow": [{"s": 2.5, "all": [2]}]},
    "equal": [{"s": 1.0, "all": [1, 1]}],
    "many": [{"s": 1.0}, {"s": 2.0}, {"s": 3.0}],
}


@pytest.fixture
def content(tmp_path, monkeypatch):
    (tmp_path / "r.json").write_text(json.dumps(CONTENT))
    monkeypatch.setattr(results, "FOLDER", tmp_path)


def test_a_table_shows_the_figures_of_its_file_and_the_run_that_made_them(content):
    block = """
    file: r.json
    each: runs.*.*
    columns: {way: "*1", seconds: s .1f, all: all range .0f, none: "nothing?", threads: threads}
    """
    drawn = results.table(block)
    assert "| quick | 1.2 | 1 – 3 | – | 1 |\n| slow | 2.5 | 2 – 2 | – | 1 |" in drawn
    assert "<summary>Measured on 2 cores of P, Linux</summary>" in drawn
    assert "Python 3, torch 2, transformers 5" in drawn
    assert "at commit abc with changes · CPU threads: 1" in drawn
    assert '`bench.py --text "two words"`' in drawn


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ('each: runs.*.*, columns: {a: "runs.slow.0.s / s .1f"}', ["| 2.0 |", "| 1.0 |"]),
        ('each: runs.*.*, columns: {way: "*1", s: s}, where: {way: slow}', ["| slow | 2.5 |"]),
        ("each: many.1, columns: {s: s, first: many.0.s}", ["| 2.0 | 1.0 |"]),
    ],
    ids=["a divisor", "the text of a cell", "the number of an item"],
)
def test_a_line_is_selected_and_its_figures_are_divided(content, query, lines):
    drawn = results.table(f"{{file: r.json, {query}}}")
    assert re.findall(r"^\| .*", drawn, re.MULTILINE)[2:] == lines


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("each: runs.absent.*, columns: {s: s}", "absent"),
        ("each: runs.*.*, columns: {a: missing}", "missing"),
        ('each: runs.*.*, columns: {a: "s.deeper?x"}', "not subscriptable"),
        ('each: runs.*.*, columns: {a: "*.s sum"}', "not subscriptable"),
        ('each: runs.*.*, columns: {way: "*1"}, where: {way: none}', "no line"),
    ],
)
def test_what_is_not_in_the_file_is_an_error_and_not_an_empty_cell(content, query, said):
    with pytest.raises((KeyError, TypeError), match=said):
        results.table(f"{{file: r.json, {query}}}")


def test_a_figure_has_its_range_in_brackets_if_they_differ(content):
    both = 'columns: {"s (range)": [s .1f, all range .1f]}'
    drawn = results.table(f"{{file: r.json, each: runs.*.*, {both}}}")
    assert "| ---: |\n| 1.2 (1.0 to 3.0) |\n| 2.5 (2.0 to 2.0) |" in drawn.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert "| 1.0 |" in results.table(f"{{file: r.json, each: equal.*, {both}}}")


def test_a_block_gets_its_table_and_links_that_are_relative_to_its_page(monkeypatch):
    monkeypatch.setitem(pages.TABLES, "one", lambda text: f"[{text.strip()}](root:docs/a.md#b)")
    page = "above\n\n<!-- begin: one\nx: 1\n-->\nold\n<!-- end -->\n\nbelow\n"
    drawn = pages.render(page, ROOT / "docs" / "guide" / "page.md")
    new = "<!-- begin: one\nx: 1\n-->\n\n[x: 1](../a.md#b)\n\n<!-- end -->"
    assert drawn == f"above\n\n{new}\n\nbelow\n"
    assert pages.render(drawn, ROOT / "docs" / "guide" / "page.md") == drawn
    assert "[x: 1](docs/a.md#b)" in pages.render(page, ROOT / "README.md")


@pytest.mark.parametrize(
    "page",
    [
        "<!-- begin: executors -->\n",
        "<!-- begin: executors -->\n<!-- begin: executors -->\n<!-- end -->\n",
        "<!-- begin: executors -->\nindented:\n  <!-- end -->\n",
    ],
)
def test_a_block_that_does_not_end_is_an_error(page):
    with pytest.raises(ValueError, match="a block does not end"):
        pages.render(page, ROOT / "README.md")


def test_every_result_file_is_read_by_a_page(site):
    texts = [*site.values(), (ROOT / "benchmarks" / "diary.md").read_text()]
    linked = {name for text in texts for name in re.findall(r"results/([\w.-]+\.json)", text)}
    assert {path.name for path in results.FOLDER.glob("*.json")} <= linked


def test_a_result_file_has_one_line_per_cell():
    cells = [{"ms": 1.5, "all": [1, 2], "of": {"a": {"b": None}}}, {"ms": 2}]
    content = {"one": "é", "cells": cells, "by": {"1": {"x": {"y": 1}}, "2": {}}, "none": []}
    drawn = layout(content | {"cells": tuple(cells), "by": {1: {"x": {"y": 1}}, 2: {}}})
    assert json.loads(drawn) == content
    assert drawn.splitlines() == [
        "{",
        ' "one": "\\u00e9",',
        ' "cells": [',
        '  {"ms": 1.5, "all": [1, 2], "of": {"a": {"b": null}}},',
        '  {"ms": 2}',
        " ],",
        ' "by": {',
        '  "1": {',
        '   "x": {"y": 1}',
        "  },",
        '  "2": {}',
        " },",
        ' "none": []',
        "}",
    ]


def test_columns_of_figures_are_aligned_right():
    drawn = table(["a", "b", "c", "d"], [["x", "1.5", "-1 – +2", "–"], ["2", "1,000", "", "90 %"]])
    assert drawn.splitlines()[1] == "| --- | ---: | ---: | ---: |"
    assert table(["a", "b"], [["", "1 of 2"]]).splitlines()[1] == "| --- | --- |"
    assert table(["a", "b"], []).splitlines()[1] == "| --- | --- |"
