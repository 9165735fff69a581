"""Constructed situations: what the headline says before the speed-up, and which advice is given."""

import json
import re
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import pytest
from rich.console import Console
from tasc_cli import _console
from tasc_cli.commands.bench import show

from tasc.benchmark.pages.bench import headlines, render
from tasc.benchmark.results.answers import wrong_outputs
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.quality import quality_lines
from tasc.benchmark.results.warnings import advice
from tests.benches import make_results, said

N = 40
REFERENCES = tuple(f"answer {i}" for i in range(N))
LABELS = tuple("yes" if i % 4 else "no" for i in range(N))  # yes: 30 of 40
LIMIT = 8
LOOPS, SHORT, LONG = (
    {"cut": True, "loops": loops, "reference_tokens": tokens}
    for loops, tokens in ((True, 3), (False, 3), (False, LIMIT))
)


def answers(right: int, references: tuple[str, ...] = REFERENCES) -> list[str]:
    """Return outputs of which the first ``right`` ones are their references."""
    return [text if i < right else "wrong" for i, text in enumerate(references)]


def a_model(name: str, texts: list[str], ms: float, *, cut: dict[str, Any] = {}, **changes: Any):  # noqa: B006 - not changed
    """A model whose last ten outputs were cut, if ``cut`` says how."""
    cell = said(name, texts, [ms] * len(texts), **changes)
    outputs = [
        output.model_copy(update=cut if i >= len(texts) - 10 else {})
        for i, output in enumerate(cell.outputs)
    ]
    return cell.model_copy(update={"outputs": tuple(outputs)})


@dataclass(frozen=True)
class Situation:
    """The cells of a bench, and what is reported about them."""

    cells: list[Any]
    references: tuple[str, ...] = REFERENCES
    trained: tuple[str, ...] = ("base", "ft")
    new_tokens: tuple[str, ...] = ("ft",)
    settings: dict[str, Any] = field(default_factory=dict)
    headline: tuple[str, ...] = ()  # what the lines before the speed-up contain, one line each
    advice: tuple[str, ...] = ()


def base(right: int = 30, **changes: Any) -> Any:
    return a_model("base", answers(right), 8.0, **changes)


def tuned(right: int = 30, ms: float = 2.0, **changes: Any) -> Any:
    return a_model("ft", answers(right), ms, **changes)


SITUATIONS = {
    "broken training": Situation(
        [base(), tuned(0, cut=LOOPS, times_canonical_length=3.0)],
        headline=(
            "ft has almost no output right: Exact match 0.000; it loses quality: Exact match "
            "0.750 → 0.000, a significant loss, p = 1.9e-09, so its speed-up of 4.00× means "
            "nothing",
        ),
        advice=(
            "ft writes 3.0 times the tokens that its tokenizer needs",
            "10 of 40 outputs of ft repeat themselves until --max-new-tokens (8): the model is "
            "trained too little, or the prompt does not fit",
        ),
    ),
    "truncated and repeating": Situation(
        [base(), tuned(cut=LOOPS)], advice=("10 of 40 outputs of ft repeat themselves",)
    ),
    "untuned and repeating": Situation(
        [base(cut=LOOPS), tuned()],
        trained=("ft",),
        advice=("10 of 40 outputs of base repeat themselves until --max-new-tokens (8): the model "
        "is not tuned, or the prompt does not fit",),
    ),
    "truncated and long": Situation(
        [base(), tuned(cut=LONG)],
        advice=("10 of 40 outputs of ft were cut at 8 tokens, and their references are as long: "
        "raise --max-new-tokens",),
    ),
    "truncated and short": Situation(
        [base(), tuned(cut=SHORT)],
        advice=("10 of 40 outputs of ft were cut at 8 tokens, and their references are shorter",),
    ),
    "majority answer": Situation(
        [a_model("base", ["yes"] * N, 8.0), a_model("ft", ["yes"] * N, 2.0)],
        references=LABELS,
        headline=("ft is no better than always answering “yes”: Exact match 0.750 against 0.750; "
        "its speed-up is 4.00×",),
    ),
    "no gain": Situation([base(), tuned(ms=8.0)]),
    "all right": Situation([base(), tuned(32)]),
    "significantly worse": Situation(
        [base(), tuned(20)],
        headline=("ft loses quality: Exact match 0.750 → 0.500, a significant loss, p = 0.002; "
        "its speed-up is 4.00×",),
    ),
    "untuned better": Situation(
        [tuned(10, 4.0), a_model("ft2", answers(11), 2.0), a_model("untuned", answers(30), 8.0)],
        trained=("ft", "ft2"),
        headline=("ft2 is worse than the untuned untuned: Exact match 0.275 against 0.750",),
    ),
    "untuned significantly better": Situation(
        [tuned(20, 4.0), a_model("ft2", answers(20), 2.0), a_model("untuned", answers(30), 8.0)],
        trained=("ft", "ft2"),
        headline=("ft2 is worse than the untuned untuned: Exact match 0.500 against 0.750; "
        "its speed-up is 2.00×",),
    ),
    "untuned not significantly better": Situation(
        [tuned(28, 4.0), a_model("ft2", answers(28), 2.0), a_model("untuned", answers(30), 8.0)],
        trained=("ft", "ft2"),
    ),
    "untuned alone is bad": Situation(
        [a_model("untuned", answers(0), 8.0), tuned()],  # what the tuned one is compared with
        trained=("ft",),
    ),
    "two rows": Situation(
        [tuned(0, 8.0), a_model("ft", answers(0), 2.0, method="tasc-spec")],
        headline=("ft has almost no output right: Exact match 0.000, so its speed-up of 4.00× "
        "means nothing",),
    ),
    "one row": Situation(
        [tuned(0)], headline=("ft has almost no output right: Exact match 0.000",)
    ),
    "labels": Situation(
        [a_model("base", answers(36, LABELS), 8.0), a_model("ft", answers(37, LABELS), 2.0)],
        references=LABELS,
    ),
    "no new tokens": Situation(
        [base(times_canonical_length=3.0), tuned(times_canonical_length=3.0)], new_tokens=()
    ),
    "perfect": Situation([base(N), tuned(N)]),
}  # fmt: skip


def results_of(case: Situation, **changes: Any) -> BenchResults:
    return make_results(
        *case.cells,
        references=case.references,
        settings={"max_new_tokens": LIMIT, **case.settings},
        task={"trained": case.trained, "with_new_tokens": case.new_tokens},
        **changes,
    )


@pytest.fixture(params=SITUATIONS.values(), ids=[*SITUATIONS])
def case(request):
    return request.param


def test_the_headline_says_what_comes_before_the_speed_up(case):
    lines = quality_lines(results_of(case))
    assert len(lines) == len(case.headline)
    for line, expected in zip(lines, case.headline, strict=True):
        assert expected in line


def test_advice_is_given_only_where_its_cause_was_measured(case):
    lines = advice(results_of(case))
    assert len(lines) == len(case.advice)
    for line, expected in zip(lines, case.advice, strict=True):
        assert line.startswith(expected)


def with_metrics(*metrics: str, right: int = N, references=REFERENCES) -> BenchResults:
    cell = said("base", answers(right, references), [8.0] * N)
    return make_results(cell, references=references, metrics=metrics)


@pytest.mark.parametrize(
    ("metric", "form"),
    [
        ("json_fields", "JSON fields counts nothing here, because no reference has the form that "),
        ("json_f1", "(JSON): choose another --metric"),
        ("intent_accuracy", "(intent: NAME, …): choose another --metric"),
        ("slot_f1", "({slot: value, …}): choose another --metric"),
    ],
)
def test_a_metric_of_another_form_does_not_call_right_outputs_wrong(metric, form):
    results = with_metrics(metric, "exact_match")
    assert results.cells[0].quality == {metric: 0.0, "exact_match": 1.0}
    assert quality_lines(results) == ()
    (line,) = advice(results)
    assert form in line
    (line,) = quality_lines(with_metrics(metric, "exact_match", right=0))
    assert line == "base has almost no output right: Exact match 0.000"
    assert quality_lines(with_metrics(metric, right=0)) == ()  # nothing is known


def test_a_metric_of_the_form_of_one_reference_counts():
    references = ('{"a": 1}', *REFERENCES[1:])
    results = with_metrics("json_fields", right=0, references=references)
    assert quality_lines(results) == ("base has almost no output right: JSON fields 0.000",)
    assert advice(results) == ()


def test_page_and_terminal_begin_with_the_quality(case, capsys):
    results = results_of(case)
    show(results)
    out, page = capsys.readouterr().out, render(results)
    body = page[page.index("<h1>") :]
    if not case.headline:
        assert out.startswith("s: 40 samples")
        assert "Exact match: the model" not in body
        return
    for at, expected in enumerate(case.headline):
        assert expected in out.splitlines()[at]
    first = next((m.start() for m in re.finditer(r"\d\.\d\d×", body)), len(body))
    assert body.index("Exact match") < first
    for card in headlines(results):
        if card.concern:
            assert f'<p class="bad">Exact match: the model {card.concern.text}</p>' in body
            assert f'<b class="bad">{card.concern.figure}</b>{card.cell.model}' in body


def test_results_are_read_back_as_they_were(case):
    results = results_of(case)
    assert BenchResults.model_validate(json.loads(json.dumps(results.to_dict()))) == results
    assert not list(results.contradictions())


@pytest.mark.parametrize("labels", [True, False])
def test_the_most_frequent_training_label_is_scored(labels, capsys):
    case = SITUATIONS["labels"]
    found = results_of(case, corpus=("no",) * 20 + ("yes",) * 10, labels=labels)
    assert found.majority is not None
    assert (found.majority.answer, found.majority.split) == ("no", "train")
    assert found.majority.quality == {"exact_match": 10 / 40}
    line = "Always answering “no”, the most frequent output of split train: Exact match 0.250"
    show(found)
    assert line in capsys.readouterr().out
    assert line in render(found)


@pytest.mark.parametrize(
    ("corpus", "labels", "is_one"),
    [
        (("a b", "c") * 5, False, True),
        (("a b", "c") * 4, False, False),  # too few for two labels
        (("a b", "c") * 4, True, True),
        (("a",) * 20, False, False),  # one label alone
        (("a", "b" * 65) * 10, False, False),
        (("a", "b\nc") * 10, False, False),
        (tuple(f"{i % 101}" for i in range(1010)), False, False),
        (tuple(map(";".join, permutations("abcd", 3))), False, True),  # lists of labels
        (tuple(json.dumps(one) for one in permutations("abcd", 3)), False, True),
        (tuple(json.dumps([i]) for i in range(3)) * 10, False, True),  # few different outputs
        (tuple(f"a;{i}" for i in range(30)), False, False),
    ],
)
def test_tasks_of_few_short_and_repeated_outputs_are_classification(corpus, labels, is_one):
    found = make_results(tuned(), references=REFERENCES, corpus=corpus, labels=labels).majority
    assert (found is not None) == is_one


def test_a_majority_is_not_scored_by_whether_outputs_are_valid():
    metrics = ("valid:regex=yes|no", "exact_match")
    found = make_results(*SITUATIONS["majority answer"].cells, references=LABELS, metrics=metrics)
    assert found.majority is not None
    assert found.majority.quality == {"exact_match": 0.75}
    assert quality_lines(found) == ()  # the first metric says nothing about it


def test_the_first_three_wrong_outputs_are_beside_their_references():
    texts = ["<i>wrong</i>", "answer 1", "w" * 300, *answers(0)[3:]]
    found = results_of(Situation([base(N), a_model("ft", texts, 2.0)]))
    wrong = [(w.model, w.sample, w.reference, w.output) for w in found.wrong_outputs]
    assert wrong == [
        ("ft", 0, "answer 0", "<i>wrong</i>"),
        ("ft", 2, "answer 2", "w" * 200 + "…"),
        ("ft", 3, "answer 3", "wrong"),
    ]
    assert found.to_dict()["wrong_outputs"][0]["output"] == "<i>wrong</i>"
    page = render(found)
    part = page[page.index("<h2>Wrong outputs</h2>") : page.index("<h2>Differences")]
    assert "<pre>&lt;i&gt;wrong&lt;/i&gt;</pre>" in part
    assert "No output of base is wrong." in part
    older = found.model_copy(update={"wrong_outputs": ()})
    assert part in render(older)


def test_wrong_is_what_the_first_metric_calls_wrong():
    cell = said("m", ["b; a", "a", "a; c"], [1.0] * 3)
    references = ("a; b", "a; b", "a; c")
    for metrics, wrong in ((("micro_f1",), [1]), (("exact_match",), [0, 1])):
        found = make_results(cell, references=references, metrics=metrics)
        assert [one.sample for one in found.wrong_outputs] == wrong
    sql = make_results(said("m", ["SELECT 1;"], [1.0]), references=("select 1",),
                       metrics=("sql_exact_match",))  # fmt: skip
    assert sql.wrong_outputs == ()
    scores = (1.0, 0.5, None)
    outputs = [
        output.model_copy(update={"score": score})
        for output, score in zip(cell.outputs, scores, strict=True)
    ]
    judged = cell.model_copy(update={"outputs": tuple(outputs)})
    settings = found.settings.model_copy(update={"metrics": ("judge",)})
    assert [w.sample for w in wrong_outputs([judged], references, settings)] == [1]


@pytest.mark.parametrize("width", [80, 90, 100, 120])
def test_the_table_breaks_no_word_on_a_terminal(width, capsys, monkeypatch):
    monkeypatch.setattr(_console, "out", Console(**_console._plain, width=width))
    compared = {"against": "ar", "identical": 200, "of": 200, "match_rate": 1.0,
                "logits_identical": 3, "logits_of": 3}  # fmt: skip
    cells = [
        a_model(name, answers(right), ms, method=method, lossless=compared)
        for name, right in (("baseline", 20), ("tasc-ft-merged", 30))
        for method, ms in (("ar", 1234.5), ("tasc-spec", 412.25))
    ]
    results = make_results(*cells, references=REFERENCES, metrics=("exact_match", "token_accuracy"))
    show(results)
    table = capsys.readouterr().out.partition("Steps include")[0]
    assert max(map(len, table.splitlines())) <= width
    shown = table.split()
    for word in ("baseline", "tasc-ft-merged", "tasc-spec", "speed-up", "accuracy", "200/200,"):
        assert word in shown
    assert ("nodes/step" in shown) == (width > 90)


def test_choosing_among_labels_is_not_judged_by_plain_decoding(capsys):
    """Decoding writes no label, and the labels are chosen well."""
    decoded = a_model("base", answers(0, LABELS), 8.0)
    drafted = a_model("base", answers(0, LABELS), 4.0, method="tasc-spec")
    chosen = a_model("base", answers(30, LABELS), 2.0, method="choices")
    case = Situation([decoded, drafted, chosen], references=LABELS)
    results = results_of(case)
    (line,) = quality_lines(results)
    assert "so its speed-up of 2.00× means nothing; with choices, its Exact match is 0.750" in line
    cards = {card.cell.method: card.useless for card in headlines(results)}
    assert cards == {"tasc-spec": True, "choices": False}
