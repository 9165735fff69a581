"""Several benches on one page."""

import csv
import json

import pytest

from tasc.benchmark.join import ReportOptions, join_results
from tasc.benchmark.pages.runs import as_csv
from tasc.benchmark.paired.pairs import pairs
from tasc.benchmark.results.bench import JoinedResults
from tasc.errors import InputError
from tests.benches import make_results, said
from tests.cli import done, printed, refused, tasc

REFERENCES = tuple(f"r{i}" for i in range(12))


@pytest.fixture
def bench(save):

    def made(name, *cells, **changes):
        return save(name, make_results(*cells, references=REFERENCES, **changes))

    return made


def joined(*runs: str) -> JoinedResults:
    found = join_results(ReportOptions(runs=runs))
    assert isinstance(found, JoinedResults)
    return found


def model(name, right, ms, **changes):
    texts = [r if i < right else "x" for i, r in enumerate(REFERENCES)]
    return said(name, texts, [ms] * len(REFERENCES), **changes)


def test_models_of_different_runs_are_tested_as_those_of_one(bench):
    cells = model("a", 12, 2.0), model("b", 3, 4.0), model("c", 7, 1.0)
    first, second = bench("first", *cells[:2]), bench("second", cells[2])
    found = joined(first, second)
    rows = [(run.label, c.model, speedup) for run in found.runs for c, speedup, _ in run.rows()]
    assert rows == [("first", "a", 1.0), ("first", "b", 0.5), ("second", "c", 1.0)]
    together = pairs(cells, REFERENCES, make_results(*cells, references=REFERENCES).settings)
    assert [p.model for p in together] == ["b", "c", "c"]
    assert [(p.model, p.against) for p in found.pairs] == [
        ("second · c", "first · a"),
        ("second · c", "first · b"),
    ]
    for own, expected in zip(found.pairs, together[1:], strict=True):
        assert (own.quality, own.speed) == (expected.quality, expected.speed)
    assert found.notes == ()


def test_nothing_is_tested_on_other_samples_and_no_speed_on_another_machine(bench):
    one, two = bench("one", model("a", 12, 2.0)), bench("two", model("a", 3, 4.0))
    threads = bench("threads", model("a", 6, 4.0), settings={"threads": 8})
    other = bench("other", model("a", 6, 4.0), samples=[{"id": "x", "reference": "r"}] * 12)
    found = joined(one, f"b={two}", threads, other)
    assert [(p.model, p.against, bool(p.speed)) for p in found.pairs] == [
        ("b · a", "one · a", True),
        ("threads · a", "one · a", False),
        ("threads · a", "b · a", False),
    ]
    assert "one and threads: threads is 8, was 1: speed is not compared" in found.notes
    assert sum("the samples differ" in note for note in found.notes) == 3


def test_runs_that_are_named_as_seeds_are_tested(bench):
    one, two = bench("one", model("a", 12, 2.0)), bench("two", model("a", 3, 4.0))
    assert len(joined(f"run#1={one}", f"run#2={two}").pairs) == 1


def test_scores_of_two_judges_are_not_compared(bench):
    cell, metrics = model("a", 12, 2.0), ("exact_match", "judge")
    cells = [cell.model_copy(update={"quality": dict.fromkeys(metrics, 1.0)})]
    runs = [
        bench(name, cell, metrics=metrics, settings={"judge": name}, cells=cells)
        for name in ("large", "tiny")
    ]
    (pair,) = joined(*runs).pairs
    assert list(pair.quality) == ["exact_match"]


def test_what_a_bench_warns_of_is_told_of_each_run(bench, capsys, tmp_path):
    fine, cut = (
        bench("fine", model("a", 12, 2.0)),
        bench(
            "cut",
            model("b", 12, 2.0, times_canonical_length=2.0),
            task={"with_new_tokens": ("b",)},
        ),
    )
    code, _, err = tasc(capsys, "report", fine, cut, "--output", tmp_path / "out")
    assert code == 0
    assert "cut: b writes 2.0 times the tokens" in " ".join(err.split())
    assert "fine:" not in err
    assert "cut: b writes 2.0 times the tokens" in (tmp_path / "out" / "report.html").read_text()


def test_runs_of_one_name_are_refused(bench, tmp_path):
    one = bench("one", model("a", 12, 2.0))
    with pytest.raises(InputError, match="name them with LABEL=DIR"):
        join_results(ReportOptions(runs=(one, one)))
    assert [len(made.bench.cells) for made in joined(one, f"again={one}").runs] == [1, 1]


def test_the_page_is_escaped_and_its_table_is_a_spreadsheets(bench, capsys, tmp_path):
    one = bench("one", model("<b>m</b>", 12, 2.0), model("=1+1", 3, 2.0))
    two = bench("two", model("c", 3, 4.0, lossless=None))
    out = tmp_path / "joined"
    found = done(capsys, "report", one, two, "--output", out)
    page = (out / "report.html").read_text()
    assert "<b>m" not in page
    assert "&lt;b&gt;m" in page
    lines = list(csv.DictReader((out / "runs.csv").read_text().splitlines()))
    assert [line["model"] for line in lines] == ["<b>m</b>", "'=1+1", "c"]
    assert [float(line["exact_match"]) for line in lines] == [1, 0.25, 0.25]
    assert [line["lossless"] for line in lines] == ["1", "1", ""]
    assert as_csv(joined(one, two)) == (out / "runs.csv").read_text()
    cells = [(made["label"], cell) for made in found["runs"] for cell in made["bench"]["cells"]]
    assert [label for label, _ in cells] == ["one", "one", "two"]
    assert not any("outputs" in cell for _, cell in cells)
    assert "--force" in refused(capsys, "report", one, two, "--output", out)
    into_one = ("--output", tmp_path / "one", "--force")
    assert "would replace" in refused(capsys, "report", one, two, *into_one)


def test_of_one_run_its_own_page_is_made_anew(bench, capsys, tmp_path):
    one = bench("one", model("a", 12, 2.0), model("b", 3, 2.0))
    out = printed(capsys, "report", one, "--output", tmp_path / "again")
    assert out == f"report: {tmp_path / 'again' / 'report.html'}\n"
    assert "Speed-up report" in (tmp_path / "again" / "report.html").read_text()
    assert len((tmp_path / "again" / "samples.csv").read_text().splitlines()) == 25


EDITS = {
    "no cells": lambda r: r.update(cells=[]),
    "no samples": lambda r: r.update(samples=[]),
    "a renamed model": lambda r: r["cells"][1].update(model="x"),
    "a renamed method": lambda r: r["cells"][1].update(method="x"),
    "a lost metric": lambda r: r["cells"][0].update(quality={}),
    "no time": lambda r: r["cells"][0].update(ms_per_sample=0.0),
    "no outputs": lambda r: r["cells"][0].update(outputs=[]),
    "no repeats": lambda r: r["cells"][0]["outputs"][0].update(ms=[]),
    "no metrics": lambda r: r["settings"].update(metrics=[]),
    "no turns": lambda r: r["settings"].update(turn=0),
    "no task": lambda r: r["task"].update(samples=0),
    "a repeated corpus": lambda r: r["task"].update(corpus_repeated=10**6),
    "an unknown metric": lambda r: r["settings"].update(metrics=["x"]),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edited_results_are_one_line_and_exit_code_2(capsys, bench, tmp_path, edit):
    folder = bench("first", model("a", 12, 2.0), model("b", 3, 4.0))
    file = tmp_path / "first" / "results.json"
    results = json.loads(file.read_text())
    edit(results)
    file.write_text(json.dumps(results))
    err = refused(capsys, "report", folder, "--output", tmp_path / "page")
    assert "run the bench again" in err or "metric" in err
