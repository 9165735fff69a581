"""The page of a bench."""

import csv
import io

import pytest
from tasc_cli.commands.bench import show

from tasc.benchmark.pages.bench import headlines, render
from tasc.benchmark.pages.samples import as_csv
from tasc.benchmark.results.warnings import warnings
from tests.benches import make_cell, make_results, said


def small_report(cell=(), reference=(), **settings):
    """Render the figures of one cell whose names are markup, but for what ``cell`` says."""
    text = {"text": "<img src=x>", "tokens": 1, "steps": 1, "ms": (1.0,)}
    results = make_results(
        make_cell(**{"model": "<b>m</b>", "outputs": [text], **dict(cell)}),
        references=("&",),
        settings=settings,
        reference=reference,
        prompts=("<script>alert(1)</script>",),
    )
    named = results.task.model_copy(update={"source": "<i>s</i>"})
    return render(results.model_copy(update={"task": named}))


def test_user_text_is_escaped_in_the_report():
    page = small_report()
    for markup in ("<script>", "<img", "<i>s", "<b>m"):
        assert markup not in page


@pytest.mark.parametrize("name", ["a$x^{$b", "_hidden", "日本"])
def test_a_report_takes_any_name(name):
    assert f">{name} · ar<" in small_report(cell={"model": name, "accepted_by_position": (0.5,)})


SAMPLING = {"temperature": 0.9, "top_k": 0, "top_p": 1.0, "seed": 0, "verify": "sampled"}


def test_a_report_says_whether_it_was_sampled():
    assert "greedy;" in small_report()
    sampled = small_report(sampling=SAMPLING)
    assert "greedy;" not in sampled
    assert "sampled;" in sampled


def texts(right: int, of: int, reference: str = "x") -> list[str]:
    return [reference if i < right else "y" for i in range(of)]


def two_models(right: int, of: int = 40):
    """A model that is always right, and a faster one that is ``right`` times."""
    quality = {"quality": {"exact_match": right / of}}
    spread = {"ms_per_sample_spread": {"p10": 4.0, "p50": 4.0, "p90": 4.0}}
    slow = [4.0] * (of - 1) + [9.0]
    return make_results(
        said("good", texts(of, of), slow, **spread),
        said("fast", texts(right, of), [1.0] * of, **quality),
        references=("x",) * of,
        prompts=("the prompt",),
    )


def test_the_speed_of_a_model_that_lost_its_quality_is_no_headline():
    page = render(two_models(4))
    cards = page[page.index('class="cards"') : page.index("All models and methods")]
    assert '<b class="bad">1.000 → 0.100</b>fast' in cards
    assert "<b>4" not in cards
    assert "means nothing" in cards


def test_a_significant_loss_of_quality_is_shown_as_one_on_page_and_terminal(capsys):
    results = two_models(30)
    page = render(results)
    assert '<b class="bad">1.000 → 0.750</b>' in page
    line = "loses quality: Exact match 1.000 → 0.750, a significant loss, p = 0.002"
    assert page.index(line) < page.index("4.12×")
    show(results)
    out, _ = capsys.readouterr()
    assert out.startswith(f"fast {line}; its speed-up is 4.12×\n")
    assert "p = 0.002): significant loss" in out


def test_a_gain_without_a_significant_loss_is_shown_as_one():
    page = render(two_models(36))  # 4 of 40: p = 0.12
    assert "<b>4.12×</b>" in page
    for doubt in ("means nothing", "significant loss", "no significant difference", ": slower"):
        assert doubt not in page


def test_new_tokens_that_a_model_does_not_write_are_told():
    cells = [
        said("old", ["x"], [4.0]),
        said("new", ["x"], [4.0], canonical=0.2, times_canonical_length=3.0),
        said("new", ["x"], [4.0], method="tasc-spec"),  # the first method's counts
        said("other", ["x"], [4.0], canonical=0.2, times_canonical_length=1.1),
    ]
    trained = {"trained": ("new", "other"), "with_new_tokens": ("new", "other")}
    results = make_results(*cells, references=("x",), task=trained)
    (line,) = warnings(results)
    assert line.startswith("new writes 3.0 times the tokens that its tokenizer needs")
    assert render(results).count("it hardly uses the new tokens") == 1
    assert warnings(make_results(*cells, references=("x",))) == ()


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        ({"loops": True, "reference_tokens": 9}, "repeat themselves until --max-new-tokens (8)"),
        ({"reference_tokens": 8}, "and their references are as long: raise --max-new-tokens"),
        ({"reference_tokens": 7}, "and their references are shorter"),
        ({}, "were cut at 8 tokens"),
    ],
)
def test_outputs_that_were_cut_are_told_by_model_and_cause(cause, told):
    whole = {"text": "x", "tokens": 8, "steps": 8, "ms": (1.0,)}
    cut = make_cell(model="long", samples=2, outputs=[whole, whole | {"cut": True} | cause])
    cells = [make_cell(samples=2, outputs=[whole, whole]), cut]
    cells.append(cut.model_copy(update={"method": "tasc-spec"}))
    results = make_results(*cells, references=("x", "x"), settings={"max_new_tokens": 8})
    (line,) = warnings(results)
    assert line.startswith("1 of 2 outputs of long ")
    assert told in line
    assert ("raise" in line) == ("raise" in told)
    assert render(results).count(line) == 1


@pytest.mark.parametrize(
    ("seen", "repeated", "split", "told"),
    [
        (20, 0, "test", True),
        (20, 50, "test", True),
        (6, 0, "test", True),
        (5, 0, "test", False),  # a quarter
        (16, 55, "test", False),  # natural repeats, and no more than chance has them here
        (20, 90, "test", False),
        (20, 90, "train", True),
    ],
)
def test_samples_that_drafts_have_seen_are_told(seen, repeated, split, told):
    results = make_results(make_cell())
    figures = {"samples": 20, "corpus_outputs": 100, "seen": seen, "corpus_repeated": repeated}
    task = results.task.model_copy(update={"split": split, **figures})
    lines = warnings(results.model_copy(update={"task": task}))
    assert len(lines) == told
    assert all(line.startswith(f"{seen} of 20 samples are also in split train") for line in lines)


def test_examples_without_an_output_are_told():
    results = make_results(make_cell())
    task = results.task.model_copy(update={"dropped": 9})
    assert "9 without an output left out" in render(results.model_copy(update={"task": task}))
    assert "left out" not in render(results)


def many():
    """A model with seven methods, each faster than the one before."""
    cells = [said("m", ["x"] * 20, [float(9 - n)] * 20, method=f"m{n}") for n in range(7)]
    return make_results(*cells, references=("x",) * 20)


def test_of_many_methods_the_fastest_of_each_model_is_the_headline():
    (only,) = headlines(many())
    assert (only.compared.method, only.fastest_of, only.quality) == ("m6", 6, None)
    page = render(many())
    assert page.count('<div class="card">') == 1
    assert "the fastest of 6 methods" in page
    assert len(headlines(two_models(36))) == 1
    quality = headlines(two_models(36))[0].quality
    assert quality is not None
    assert (quality.metric.label, quality.old, quality.new) == ("Exact match", 1.0, 0.9)


def test_a_speed_that_is_not_told_apart_is_said_to_be_so():
    times = [3.0, 5.0] * 10
    same = said("m", ["x"] * 20, times[::-1], method="tasc-spec")
    results = make_results(said("m", ["x"] * 20, times), same, references=("x",) * 20)
    assert headlines(results)[0].open
    assert "no significant difference" in render(results)


def test_a_model_that_is_slower_is_no_gain():
    slow = said("slow", ["x"] * 12, [8.0] * 12)
    page = render(make_results(said("m", ["x"] * 12, [4.0] * 12), slow, references=("x",) * 12))
    assert '<b class="bad">0.50×</b>' in page
    assert ": slower" in page


def test_each_sample_is_shown_and_can_be_filtered_without_a_script():
    results = two_models(36)
    page = render(results)
    assert "<script" not in page
    assert page.count('<details class="sample') == 40
    assert page.count('class="sample wrong') == 4
    assert page.count('<details class="sample wrong slow"') == 1
    assert "not as the reference (4)" in page
    assert "slow (1)" in page
    assert "<pre>the prompt</pre>" in page


def test_all_outputs_are_in_a_file_for_spreadsheets_that_computes_nothing():
    results = two_models(36)
    lines = list(csv.DictReader(io.StringIO(as_csv(results), newline="")))
    assert len(lines) == 80
    assert lines[40]["model"] == "fast"
    assert [line["as the reference"] for line in lines].count("no") == 4
    assert (lines[39]["ms"], lines[39]["steps"]) == ("9.000", "9")
    evil = said("=1+1", ['=HYPERLINK("x")', 'a,\n"b'], [1.0, 1.0])
    text = as_csv(make_results(evil, references=("-1", "@x")))
    found = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert [line[2:6] for line in found] == [
        ["'=1+1", "ar", "'-1", '\'=HYPERLINK("x")'],
        ["'=1+1", "ar", "'@x", 'a,\n"b'],
    ]
