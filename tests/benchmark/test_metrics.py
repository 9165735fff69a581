"""Worked examples of every metric, and the registry that all else is read from."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy.sparse import issparse

from tasc.benchmark.metrics import METRICS, check_metrics, find, score
from tasc.benchmark.metrics.texts import normalised_sql, slots
from tasc.errors import InputError

JSON_REFERENCES = ['{"intent": "set", "slots": {"at": "five", "on": ["mo", "tu"]}}', '{"a": 1}']
JSON_OUTPUTS = [
    '{"intent": "set", "slots": {"at": "six", "on": ["tu", "mo"]}, "x": {}}',
    "{'a': 1}",
]
MACRO = ["a; b", "a", "c"], ["a", "a; b", "b"]
INTENTS = (
    ["intent: stop, slot fills: {x: y}", "stop", "intent: call"],
    ["intent: stop, slot fills: {}", "intent: stop, slot fills: {}", "intent: stop"],
)


def test_a_worked_example():
    predictions = ["a; b; c", "x", "same text"]
    references = ["b; a; d", "x; y", "same text"]
    result = score(list(METRICS), predictions, references, ";")
    assert result["exact_match"] == pytest.approx(1 / 3)
    # Words by position: "a;" "b;" "c" against "b;" "a;" "d": 0 of 3; "x" against "x;" "y": 0 of 2.
    assert result["token_accuracy"] == pytest.approx(2 / 7)
    # Items shared: a, b | x | same text = 4; predicted 3 + 1 + 1, expected 3 + 2 + 1.
    assert result["micro_f1"] == pytest.approx(2 * 4 / (5 + 6))
    assert result["micro_precision"] == pytest.approx(4 / 5)
    assert result["micro_recall"] == pytest.approx(4 / 6)
    # a, b, x and the text are right; d and y are never said, and nobody expects c.
    assert result["macro_f1"] == pytest.approx(4 / 6)


# Items separated by ";" unless the metric has its own. Comments count what is right.
WORKED = [
    ("micro_f1", ["a; a"], ["a"], 2 / 3),  # a repeated item counts each time
    ("exact_match", [" a b\n"], ["a b"], 1),  # white space around an output does not matter
    # Only the intent of 4 + 1 fields; without the arrays' order also both days, of 5 and 5 pairs.
    ("json_fields", JSON_OUTPUTS, JSON_REFERENCES, 1 / 5),
    ("json_f1", JSON_OUTPUTS, JSON_REFERENCES, 2 * 3 / (5 + 5)),
    ("json_f1", ["[" * 100_000], ["{}"], 0),
    # Values are compared, not their spellings: 1 is 1.0 and 1e0, but not true or "1".
    (
        "json_fields",
        ['{"a": 1.0, "b": "\\u00fc", "c": true}'],
        ['{"c": 1, "b": "ü", "a": 1}'],
        2 / 3,
    ),
    ("json_f1", ["[1e0, -0.0, 1e22]"], ["[1, 0, 10000000000000000000000]"], 1),
    ("json_f1", ["[1, true, NaN]"], ['["1", 1, null]'], 0),
    ("json_fields", ['{"a.b": 1}'], ['{"a": {"b": 1}}'], 0),  # other paths
    # a: 2 of 2 right, b: 0 of 1 right of 2; c is no label of a reference.
    *((f"macro_{name}", *MACRO, 0.5) for name in ("precision", "recall", "f1")),
    ("intent_accuracy", *INTENTS, 1 / 3),  # intents are compared alone
    # Right: b, a; said 3; expected 4.
    ("slot_f1", ["{a: x y, b: z}", "{a: x}", "{}"], ["{a: x, b: z}", "{a: x}", "{c: w}"], 4 / 7),
    ("sql_exact_match", ["select a from T;", "select a"], ["SELECT a FROM t", "select b"], 0.5),
]


@pytest.mark.parametrize(("metric", "outputs", "references", "expected"), WORKED)
def test_worked_examples(metric, outputs, references, expected):
    assert score([metric], outputs, references, ";")[metric] == pytest.approx(expected)


def test_validity_is_by_schema_labels_or_expression(tmp_path):
    schema, labels = tmp_path / "schema.json", tmp_path / "labels.txt"
    grammar = tmp_path / "grammar.lark"
    grammar.write_text('start: "o" /n|f+/')
    labels.write_text("on\noff\n")
    outputs = ['{"a": 1}', '{"a": 1, "b": 2}', "on", "no", "{"]
    schema.write_text('{"type": "object", "properties": {"a": {}}, "additionalProperties": false}')
    for constraint, expected in {
        f"valid:schema={schema}": [1, 0, 0, 0, 0],
        f"valid:choices={labels}": [0, 0, 1, 0, 0],
        f"valid:grammar={grammar}": [0, 0, 1, 0, 0],
        r"valid:regex=o.|\{": [0, 0, 1, 0, 1],
    }.items():
        check_metrics([constraint])
        counts = find(constraint).count(outputs, outputs, ";")
        assert counts.tolist() == [[value, 1] for value in expected]


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("valid", "has no constraint: write valid:schema=FILE"),
        ("valid:shape=x", "has no constraint"),
        ("valid:schema=missing.json", "missing.json: no such file"),
        ("valid:schema={}", "is not a JSON Schema"),
        ("valid:grammar={}", "cannot be used"),
        ("valid:regex=(", "is no regular expression"),
        ("valid:regex=a{99999999999}", "is no regular expression"),
    ],
)
def test_a_constraint_that_cannot_be_read_is_one_line(tmp_path, metric, said):
    broken = tmp_path / "schema.json"
    broken.write_text('{"type": "nonsense"}')
    with pytest.raises(InputError, match=said):
        check_metrics([metric.replace("{}", str(broken))])


@pytest.mark.parametrize("text", ["5", "null", '{"$schema": 5}'])
def test_a_schema_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(InputError, match="is not a JSON Schema"):
        check_metrics([f"valid:schema={tmp_path / 's.json'}"])


def test_a_number_that_is_too_large_for_a_float_is_not_valid(tmp_path):
    (tmp_path / "s.json").write_text('{"type": "number", "multipleOf": 0.01}')
    name = f"valid:schema={tmp_path / 's.json'}"
    assert score([name], ["1" * 400, "2.5"], ["", ""], ";") == {name: 0.5}


def test_a_schema_reads_nothing_outside_its_file(tmp_path):
    (tmp_path / "s.json").write_text('{"$ref": "http://127.0.0.1:9/schema.json"}')
    with pytest.raises(InputError, match="write the definition into the file"):
        find(f"valid:schema={tmp_path / 's.json'}").count(["1"], ["1"], ";")


def test_empty_predictions_score_nothing_and_break_nothing():
    assert set(score(list(METRICS), [""], ["a; b"], ";").values()) == {0.0}


def test_an_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="unknown metric 'bleu': choose from exact_match"):
        check_metrics(["bleu"])


@pytest.mark.parametrize(
    ("metric", "package"), [("rouge_l", "rouge-score"), ("bert_score:model=x", "bert-score")]
)
def test_a_package_that_is_not_installed_is_one_line_that_names_the_extra(
    monkeypatch, metric, package
):
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    monkeypatch.setattr("tasc.benchmark.metrics.metric.find_spec", lambda _: None)
    with pytest.raises(InputError) as caught:
        check_metrics([metric])
    assert str(caught.value) == (
        f"metric '{metric}' needs {package}, which is not installed: "
        "install it with pip install 'tasc-lm[metrics]'"
    )


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_perfect_on_references_and_the_mean_weighs_samples_by_their_counts(name):
    """Its parts are (N, K) for any outputs, and a sample's own value lies between 0 and 1."""
    metric = METRICS[name]
    references = [
        "intent: call, slot fills: {who: ann, when: at nine}",
        "intent: stop, slot fills: {what: the music, where: here}",
    ]
    others = ["intent: call, slot fills: {who: bob, when: at nine}", "{nothing"]
    if metric.needs == "JSON":
        references, others = ['{"a": [1, {"b": null}]}', "{}"], ['{"a": [2, 1]}', "[]"]
    sides: Any = (metric.count(texts, references, ",") for texts in (references, others))
    right, wrong = (side.toarray() if issparse(side) else side for side in sides)
    assert right.shape == wrong.shape
    assert right.dtype == wrong.dtype == np.float64
    assert metric.score(references, references, ",") == 1
    assert metric.value(right).tolist() == [1, 1]
    assert ((metric.value(wrong) >= 0) & (metric.value(wrong) < 1)).any()
    assert metric.zero_one == (name in {"exact_match", "intent_accuracy", "sql_exact_match"})
    assert not metric.zero_one or set(wrong[:, 0]) <= {0, 1}


def test_a_resample_without_a_label_leaves_that_label_out():
    metric = METRICS["macro_f1"]
    counts: Any = metric.count(["a", "x"], ["a", "b"], ";")
    assert metric.value(counts.sum(0)) == 0.5
    assert metric.value(2 * counts.toarray()[0]) == 1


def test_a_slot_is_right_where_its_name_and_its_whole_value_are():
    text = "intent: a, slot fills: {position: paris, texas, time: 5: 30, name: o}"
    assert sorted(slots(f"{text} \n")) == ["name: o", "position: paris, texas", "time: 5: 30"]
    assert slots("intent: a, slot fills: {}").total() == 0


def test_slot_f1_is_that_of_seqeval():
    seqeval = pytest.importorskip("seqeval.metrics")
    rng = np.random.default_rng(0)
    tags, texts = ([], []), ([], [])
    for _ in range(200):
        for side in range(2):
            said, slot = [], []
            for word in range(6):  # each word is its own entity of some type, or none
                kind = rng.choice(["", "a", "b"])
                said.append(f"B-{kind}" if kind else "O")
                slot += [f"{kind}: w{word}"] if kind else []
            tags[side].append(said)
            texts[side].append("{" + ", ".join(slot) + "}")
    expected = seqeval.f1_score(tags[1], tags[0])
    found = score(["slot_f1"], texts[0], texts[1], ";")["slot_f1"]
    assert 0 < found == pytest.approx(expected)


def test_queries_are_compared_but_for_what_sql_passes_over():
    query = "SELECT  Name, age FROM t\n WHERE city = 'New  York' ;"
    assert normalised_sql(query) == "select name,age from t where city='New  York'"
    assert normalised_sql("select 'A'") != normalised_sql("select 'a'")


def test_rouge_l_is_the_longest_common_subsequence_of_words():
    pytest.importorskip("rouge_score")
    # The cat … mat: "the cat on the mat" of 6 and 5 words is common.
    outputs, references = ["the cat sat on the mat"], ["the cat on the mat"]
    found = score(["rouge_l"], outputs, references, ";")["rouge_l"]
    assert found == pytest.approx(2 * (5 / 6) * 1 / (5 / 6 + 1))
    assert score(["rouge_l"], ["Привет, мир"], ["привет мир"], ";")["rouge_l"] == 1


DUMMY = """
import sys
import numpy as np
sys.path[:0] = [".", "docs"]
from tasc.benchmark import metrics
from tasc.benchmark.metrics.metric import Metric, share

def vowels(outputs, references, delimiter):
    return np.array([(text[:1] in "aeiou", True) for text in outputs], float)

summary = "Share of outputs that begin with a vowel."
metrics.METRICS["dummy"] = Metric("dum", summary, vowels, share, "letters", zero_one=True)

from tasc_cli.main import app
from tasc_cli.commands.bench import show
from tasc.benchmark.pages.bench import render
from tests.benches import make_results, said
from tests.options import BenchOptions
from docs.generate import methods

cells = [said("old", ["x", "a"], [2, 2]), said("new", ["a", "a"], [1, 1])]
results = make_results(*cells, references=("a", "a"), metrics=("dummy",))
assert BenchOptions(metrics=["dummy"]).metrics == ("dummy",)
assert f'title="{summary}">dum</th>' in render(results)
assert f"| `dummy` | dum | {summary} | letters |" in methods.metrics("")
show(results)
app(["bench", "--help"], standalone_mode=False)
"""


def test_a_metric_is_one_line_of_the_table_and_shows_everywhere():
    run = [sys.executable, "-c", DUMMY]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "rouge_l, dummy" in " ".join(done.stdout.replace("│", " ").split())
    assert "new against old: dum +0.500 (1 against 0, p = 1), ar 2.00×" in done.stdout
