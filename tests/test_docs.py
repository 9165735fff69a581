"""The site: pages use the field's terms, links work, and every command and method has its entry."""

import itertools
import json
import re
import shlex

import hooks
import pytest
import yaml
from site_tables import results, schema

from tasc.benchmark.metrics import METRICS
from tasc.commands.plan import RunOptions, read
from tasc.commands.registry import STEPS, step_options
from tasc.commands.steps import names
from tasc.decoding.drafters import DRAFTERS, parse
from tasc.decoding.verify import VERIFIERS
from tasc.options.task import read_task
from tasc.report.markdown import table
from tests.cli import COMMANDS
from tests.recipes import ROWS, write
from tests.trees import ROOT

DOCS = ROOT / "docs"
ARCHIVE = "lab/diary.md"  # stays as it was written
PAGES = {str(path.relative_to(DOCS)): path.read_text() for path in sorted(DOCS.rglob("*.md"))}


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    """Every page of the site as it is built, including the pages from the root."""
    pages = {page: hooks.render(text, page) for page, text in PAGES.items()}
    return pages | {page: (ROOT / name).read_text() for name, page in hooks.FROM_ROOT.items()}


def anchors(markdown: str) -> set[str]:
    found = set()
    for heading in re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", markdown, flags=re.S), re.M):
        named = re.search(r"\{ *#([\w-]+) *\}", heading)
        text = re.sub(r"[^\w\s-]", "", heading).strip().lower()
        found.add(named[1] if named else re.sub(r"[\s-]+", "-", text))
    return found


def test_links_inside_the_site_lead_to_a_page_and_a_heading(site):
    files = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*") if path.is_file()}
    files |= {f"results/data/{path.name}" for path in results.FOLDER.glob("*.json")}
    files.add(schema.FILE)
    checked = 0
    for page, text in site.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.S)):
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            target = (DOCS / page).parent.joinpath(name).resolve() if name else DOCS / page
            there = str(target.relative_to(DOCS))
            assert there in files | site.keys(), f"{page} links to {link}"
            assert not anchor or anchor in anchors(site[there]), f"{page} links to {link}"
            checked += 1
    assert checked > 100


def test_links_of_the_readme_lead_to_a_file_and_a_heading(site):
    for link in re.findall(r"(?:\]\(|src=\")([^)\"\s]+)", (ROOT / "README.md").read_text()):
        if "://" not in link:
            name, _, anchor = link.partition("#")
            assert (ROOT / name).is_file(), link
            assert not anchor or anchor in anchors(site[name.removeprefix("docs/")]), link


def test_the_table_of_the_readme_has_the_figures_of_the_start_page(site):
    def figures(text):
        lines = re.findall(r"^\|.*\|$", text, re.MULTILINE)
        return [re.findall(r"\d+\.\d+", line) for line in lines if re.search(r"\d\.\d", line)]

    drawn = [[ms, speed, f1] for ms, speed, _steps, f1 in figures(site["index.md"])]
    assert figures((ROOT / "README.md").read_text()) == drawn


def test_every_command_has_a_page_of_the_guide_and_its_options(site):
    def section(anchor):
        _, _, below = site["reference/options.md"].partition(f"#{anchor} }}")
        return below.partition("\n## ")[0]

    for name, command in COMMANDS.items():
        assert f"options.md#tasc-{name}" in site[f"guide/tasc-{name}.md"]
        assert f"tasc-{name}.md" in site["guide/index.md"]
        listed = section(f"tasc-{name}") + section("shared")
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


def shown(fence: str) -> list[str]:
    """Return the code blocks that match ``fence`` in all pages and in the README."""
    texts = [*PAGES.values(), (ROOT / "README.md").read_text()]
    return [block for text in texts for block in re.findall(fence, text, re.DOTALL | re.MULTILINE)]


def test_a_command_on_a_page_has_only_existing_options():
    lines = [line for block in shown(r"^```\n(.*?)^```$") for line in block.splitlines()]
    lines += shown(r"`(tasc [a-z]+ --[^`\n]*)`")
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
    blocks = shown(r"^```yaml\n(.*?)^```$")
    assert blocks
    for number, block in enumerate(blocks):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block)
        if "steps" in yaml.safe_load(block):
            assert read(path, RunOptions(data_dir=tmp_path)).steps
        else:
            assert read_task(path, {}).path


def test_every_page_but_the_archived_diary_is_in_the_menu(site):
    def leaves(entry):
        if isinstance(entry, str):
            return {entry}
        parts = entry.values() if isinstance(entry, dict) else entry
        return set().union(*map(leaves, parts))

    menu = re.search(r"^nav:.*", (ROOT / "mkdocs.yml").read_text(), re.DOTALL | re.MULTILINE)
    assert leaves(yaml.safe_load(menu[0])["nav"]) == site.keys() - {ARCHIVE}


def test_the_description_of_a_field_takes_precedence_over_the_help_of_its_flag():
    from pydantic import Field, create_model
    from site_tables import commands

    kind = create_model("K", workers=(int, Field(2, ge=1, le=8, description="How many at once.")))
    flag = next(p for p in COMMANDS["analyze"].params if p.name == "workers")
    line = commands._line("workers", kind.model_fields["workers"], flag)
    assert line == ["`--workers`", "integer, ≥ 1, ≤ 8", "`2`", "How many at once."]


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
    assert "2 cores of P, Linux · Python 3, torch 2, transformers 5" in drawn
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


def test_a_summary_has_a_line_per_topic_with_lowest_and_highest_values_and_the_commit(content):
    block = """
    - topic: Speed
      file: r.json
      each: runs.*.*
      columns: {s: s .1f, threads: threads}
      text: "{s} s on {threads} thread"
    """
    assert "| Speed | 1.2 – 2.5 s on 1 thread | abc |" in results.summary(block)


def test_columns_of_figures_are_aligned_right():
    drawn = table(["a", "b", "c", "d"], [["x", "1.5", "-1 – +2", "–"], ["2", "1,000", "", "90 %"]])
    assert drawn.splitlines()[1] == "| --- | ---: | ---: | ---: |"
    assert table(["a", "b"], [["", "1 of 2"]]).splitlines()[1] == "| --- | --- |"
    assert table(["a", "b"], []).splitlines()[1] == "| --- | --- |"
