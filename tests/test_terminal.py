"""Text from others cannot control the terminal or pages; a bad command line is a one-line error."""

import json
import unicodedata

import pytest
import yaml

from tasc.report.html import template
from tasc.visible import visible, visible_line
from tests.cli import COMMANDS, refused, tasc
from tests.pico import make_base, make_tokenizer
from tests.recipes import write

STEERING = "\x1b[31m\r\x07\u202e\x9b2J"
ORDINARY = "naïve Ω 日本語 שלום 👩\u200d💻"
INPUT, OUTPUT = f"in{STEERING}", f"out{STEERING}"
COLUMNS = ("--input-column", INPUT, "--output-column", OUTPUT, "--split", "train")


def raw(text: str) -> set[str]:
    """Characters that steer a terminal; what rich draws tables with is none of them."""
    return {c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cs")} | (
        set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
    )


@pytest.fixture
def folder(tmp_path):
    """A task whose columns, and folder, are named to steer."""
    rows = [
        {INPUT: f"number {i} {STEERING}", OUTPUT: f"value {i % 3} {STEERING}"} for i in range(12)
    ]
    return write(tmp_path / f"task{STEERING}{ORDINARY}" / "train.jsonl", rows).parent


def test_ordinary_text_stays_and_what_steers_is_spelled_out():
    assert visible(ORDINARY + "\n\t") == ORDINARY + "\n\t"
    assert visible(STEERING) == r"\x1b[31m\r\x07\u202e\x9b2J"
    assert visible("\udcff") == r"\udcff"
    assert visible_line("a\n\tb") == r"a\n\tb"


@pytest.mark.parametrize("json_wanted", [False, True])
def test_names_that_steer_reach_no_terminal(capsys, tmp_path, folder, json_wanted):
    base = make_base(tmp_path / "base")
    wanted = ["--json"] * json_wanted
    ran = tasc(capsys, "analyze", folder, *COLUMNS, "--output", tmp_path / "a", *wanted)
    model = ("--model", f"label{STEERING}={base}", "--output", tmp_path / f"b{STEERING}")
    few = ("--max-new-tokens", 4, "--limit", 2, "--warmup", 0)
    benched = tasc(capsys, "bench", folder, *COLUMNS, *model, *few, *wanted)
    for code, out, err in (ran, benched):
        assert code == 0, err
        assert not raw(out + err)
    if json_wanted:
        assert json.loads(benched[1])["cells"][0]["model"] == f"label{STEERING}"
    else:
        assert ORDINARY in ran[1].replace("\n", "")
    pages = (tmp_path / "a" / "analysis.html", tmp_path / f"b{STEERING}" / "report.html")
    assert not any(raw(page.read_bytes().decode()) for page in pages)


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "{folder}", "--input-column", f"no{STEERING}"),
        ("analyze", f"no{STEERING}"),
        ("bench", "{folder}", "--model", "x", "--method", f"no{STEERING}"),
        ("bench", "{folder}", "--model", "x", "--method", f"tasc-spec:n_max={STEERING}"),
        ("bench", "{folder}", "--model", "x", "--split", f"no{STEERING}"),
        ("run", "{recipe}"),
        ("run", f"no{STEERING}"),
        (f"no{STEERING}",),
        ("analyze", "x", f"--no{STEERING}"),
        ("analyze", "x", "--limit", STEERING),
        ("analyze", "x", "--tokenizer", "\udcff"),
    ],
)
def test_errors_spell_out_what_steers(capsys, tmp_path, folder, arguments):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        'name: "\\e"\ndescription: x\ndata: {path: builtin:stdlib-tokens}\n'
        'steps:\n  "a\\e[31m\\r\\u202e": {command: analyze}\n  b: {command: "\\e"}\n'
    )
    given = [a.format(folder=folder, recipe=recipe) if a[0] == "{" else a for a in arguments]
    assert not raw(refused(capsys, *given))


def test_steps_and_bars_of_a_recipe_spell_out_what_steers(capsys, tmp_path, folder):
    tokens = make_tokenizer(tmp_path / "tok")
    data = {"path": str(folder), "input_column": INPUT, "output_column": OUTPUT}
    steps = {"Ω 日本": {"command": "index", "tokenizer": str(tokens)}}
    recipe = {"name": "x", "description": STEERING, "data": data, "steps": steps}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe))
    code, out, err = tasc(capsys, "run", tmp_path / "r.yaml", "--output", tmp_path / f"o{STEERING}")
    assert code == 0, err
    assert "Ω 日本: done" in err
    assert not raw(out + err)


def test_pages_spell_out_what_steers_and_escape_the_rest():
    page = template("tasc.benchmark", "analysis.html").environment.from_string(
        '<p title="{{ a }}">{{ a }}{{ 1 }}{{ svg|safe }}</p>'
    )
    assert page.render(a='<"\x1b', svg="<svg/>") == (
        '<p title="&lt;&#34;\\x1b">&lt;&#34;\\x1b1<svg/></p>'
    )


NONSENSE = [("",), ("fly",), ("--fly",), ("--version=x",)] + [
    (command, *rest)
    for command in COMMANDS
    for rest in (
        ("--fly",),
        ("", "", "", ""),
        ("x", "y", "z", "a"),
        ("--output",),
        ("--json", "x", "--output", ""),
        ("x", "--seed", ""),
        ("x", "--seed", "many\nwords"),
    )
]


@pytest.mark.parametrize("arguments", NONSENSE, ids=" ".join)
def test_nonsense_is_refused_in_one_line_that_says_what_to_type(capsys, tmp_path, arguments):
    refused(capsys, *arguments)


def test_the_command_alone_shows_its_help(capsys):
    code, out, err = tasc(capsys)
    assert (code, err) == (0, "")
    assert "analyze" in out
