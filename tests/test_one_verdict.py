"""The same rows get the same verdict and number of new tokens, in whatever form they are given."""

import csv
import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import yaml

import tasc
from tasc.benchmark.options import BenchOptions
from tasc.commands.advice import without
from tasc.commands.plan import RunOptions, read
from tasc.commands.starter import values
from tasc.data.corpus import load
from tasc.data.division import Origin, divide, missing_splits
from tasc.data.source import Source
from tasc.vocab.search.options import AugmentOptions
from tests.cli import done, printed
from tests.cli import tasc as run
from tests.pico import make_model, make_tokenizer
from tests.recipes import write

COLUMNS = ("--input-column", "line", "--output-column", "template")
FEW = [f"session <*> {what} for user <*>" for what in ("opened", "closed", "expired", "resumed")]


def lines(count=240):
    """Log lines; half of their templates recur often, the others once or twice."""
    rng = random.Random(3)
    words = [f"{a}{b}" for a in ("disk", "link", "node", "pool") for b in "abcdefghijkl"]
    rows = []
    for i in range(count):
        rare = f"{rng.choice(words)} <*> {rng.choice(words)} on {rng.choice(words)}: <*>"
        template = rng.choice(FEW) if i % 2 else rare
        rows.append({"line": template.replace("<*>", f"{i:04x}"), "template": template})
    return [*rows, *rows[:20], {"line": rows[1]["line"], "template": rows[0]["template"]}]


def write_form(form, rows):
    """Write rows in a form; return the words of a command line that name them."""
    match form:
        case "csv":
            with Path("logs.csv").open("w", newline="") as file:
                table = csv.DictWriter(file, rows[0])
                table.writeheader()
                table.writerows(rows)
            return ("logs.csv", *COLUMNS)
        case "parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), "logs.parquet")
            return ("logs.parquet", *COLUMNS)
        case "folder":
            return (write(Path("logs/train.jsonl"), rows).parent, *COLUMNS)
        case "chats":
            chats = [
                {
                    "messages": [
                        {"role": "user", "content": row["line"]},
                        {"role": "assistant", "content": row["template"]},
                    ]
                }
                for row in rows
            ]
            return (write(Path("logs.jsonl"), chats),)
        case _:
            return (write(Path("logs.jsonl"), rows), *COLUMNS)


def judged(capsys, *data):
    """Return the recommended number of new tokens and the verdict of an analysis."""
    found = done(capsys, "analyze", *data, "--tokenizer", "tok", "--output", "out", "--force")
    reasons = found["verdict"]["reasons"]
    return found["recommended_size"]["budget"], found["verdict"]["choice"], reasons[0]


@pytest.fixture(autouse=True)
def tokenizer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tasc.commands.starter.write.estimate_steps", lambda *_: {})
    monkeypatch.setattr("tasc.commands.steps.estimate_steps", lambda *_: {})
    make_tokenizer(Path("tok"))


def test_the_verdict_does_not_depend_on_the_form_of_the_data(capsys):
    rows, found = lines(), {}
    for form in ("csv", "jsonl", "parquet", "folder", "chats"):
        data = write_form(form, rows)
        found[form] = judged(capsys, *data)
        Path(form).mkdir()
        printed(capsys, "init", *data, "--recipe", f"{form}/recipe.yaml")
        found[f"{form}, task file"] = judged(capsys, f"{form}/task.yaml")
    assert len(set(found.values())) == 1, found
    size, _, reason = found["csv"]
    assert size > 0
    assert "on 27 held-out outputs" in reason  # a tenth of the inputs, some of which recur


def test_the_number_of_tokens_does_not_depend_on_the_order_of_the_rows(capsys):
    rows = lines()
    first = judged(capsys, *write_form("jsonl", rows))
    random.Random(1).shuffle(rows)
    assert judged(capsys, *write_form("jsonl", rows)) == first


def test_augment_adds_the_number_that_analyze_recommends(capsys):
    data = write_form("csv", lines())
    size, _, _ = judged(capsys, *data)
    made = done(capsys, "augment", *data, "--tokenizer", "tok", "--new-tokens", "auto")
    assert made["curve"]["recommended_size"]["budget"] == size
    assert made["held_out"]["outputs"] == 27


def test_tokens_are_not_judged_on_the_outputs_that_they_were_chosen_from(capsys):
    """Each output recurs with its input and nowhere else, so n-grams do not help with others."""
    rng = random.Random(0)
    texts = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=40)) for _ in range(100)]
    rows = [{"line": f"line {i}", "template": text} for i, text in enumerate(texts)] * 4
    _, choice, reason = judged(capsys, *write_form("jsonl", rows))
    assert choice not in ("TASC-ft", "both")
    assert "does not pay" in reason


def test_rows_with_the_same_input_stay_together():
    origins = [Origin(f"line {i % 50}", f"output {i}") for i in range(500)]
    division = divide(origins, ("validation", "test"), 0)
    parts = {}
    for origin in origins:
        parts.setdefault(division.split_of(origin), set()).add(origin.input)
    assert {name: len(inputs) for name, inputs in parts.items()} == {
        "train": 40,
        "validation": 5,
        "test": 5,
    }
    assert not parts["train"] & (parts["validation"] | parts["test"])
    assert divide(reversed(origins), ("validation", "test"), 0) == division
    assert divide(origins, ("validation", "test"), 1) != division


@pytest.mark.parametrize(
    ("count", "names", "each"),
    [
        (0, ("validation",), 0),
        (1, ("validation", "test"), 0),
        (20, ("validation",), 10),
        (20, ("validation", "test"), 5),
        (60, ("validation", "test"), 10),
        (1000, ("validation", "test"), 100),
        (50_000, ("validation",), 2_000),
    ],
)
def test_a_tenth_is_held_out_of_few_rows_more_and_of_many_less(count, names, each):
    origins = [Origin(f"line {i}", "the same") for i in range(count)]
    division = divide(origins, names, 0)
    found = [division.split_of(origin) for origin in origins]
    assert [found.count(name) for name in names] == [each] * len(names)


def test_examples_are_divided_where_few_inputs_differ():
    origins = [Origin("write one", f"output {i % 100}") for i in range(300)]
    division = divide(origins, ("validation",), 0)
    held_out = {origin for origin in origins if division.split_of(origin) == "validation"}
    assert len(held_out) == 10
    assert divide(origins[:60] * 2, ("validation",), 0).by_example


@pytest.mark.parametrize(
    ("existing", "missing"),
    [
        (["train"], ["validation", "test"]),
        (["train", "dev"], ["test"]),
        (["train", "test"], ["validation"]),
        (["train", "challenge"], ["validation"]),
        (["train", "valid", "test"], []),
    ],
)
def test_splits_are_missing_that_the_data_lack(existing, missing):
    assert missing_splits(existing) == missing


def test_the_answers_of_a_chat_are_never_divided(tmp_path):
    say = [{"role": role, "content": f"{i}"} for i, role in enumerate(["user", "assistant"] * 3)]
    (file,) = [write(tmp_path / "chats.jsonl", [{"messages": say}])]
    examples = load(Source(str(file)), "train").examples
    assert len(examples) == 3
    assert {example.origin for example in examples} == {Origin("0\n1\n2\n3\n4", "5")}


def test_all_columns_of_the_template_are_the_input(tmp_path):
    rows = [{"instruction": f"do {i}", "input": "", "output": "x"} for i in range(3)]
    corpus = load(Source(str(write(tmp_path / "do.jsonl", rows))), "train")
    assert len({example.origin for example in corpus.examples}) == 3


def test_the_library_says_the_same(tmp_path):
    file, *_ = write_form("jsonl", lines())
    data = {"path": str(file), "input_column": "line", "output_column": "template"}
    tokens = {"tokenizer": "tok"}
    found = tasc.analyze(tasc.AnalyzeOptions(source=data, **tokens)).report.recommended_size
    made = tasc.augment(tasc.AugmentOptions(source=data, **tokens, new_tokens="auto"))
    assert made.report.curve.recommended_size.budget == found.budget


def write_labels():
    """Write rows whose outputs are too short for new tokens to pay."""
    rows = [{"line": f"line {i}", "template": ("yes", "no")[i % 2]} for i in range(100)]
    return write(Path("task/train.jsonl"), rows).parent


STEPS = """
  analysis: {command: analyze, tokenizer: tok}
  tokens: {command: augment, tokenizer: tok, new_tokens: auto}
  drafts: {command: index, tokenizer: tokens}
  plain: {command: index, tokenizer: tok}
"""
DATA = "{path: task, input_column: line, output_column: template}"


def write_recipe(steps=STEPS):
    text = f"name: x\ndescription: y\ndata: {DATA}\nsteps:{steps}"
    Path("r.yaml").write_text(text)
    return ("run", "r.yaml", "--output", "ran")


def test_a_run_leaves_out_what_its_analysis_advises_against(capsys):
    write_labels()
    command = write_recipe()
    planned = printed(capsys, *command, "--dry-run")
    assert "the recipe is valid, 2 steps" in planned
    assert "Verdict: neither\n" in planned
    code, out, err = run(capsys, *command)
    assert code == 0
    (line,) = [line for line in err.splitlines() if line.startswith("left out: ")]
    assert line in planned
    assert line.startswith("left out: tokens, drafts. An output takes ")
    assert line.endswith("write `new_tokens: 2` in the step tokens.")
    assert "Verdict: neither\n" in out
    assert {path.name for path in Path("ran").iterdir()} == {"analysis", "plain"}


def test_a_number_of_tokens_puts_the_steps_back(capsys):
    write_labels()
    command = write_recipe(STEPS.replace("auto", "1"))
    assert "4 steps" in printed(capsys, *command, "--dry-run")
    assert list(done(capsys, *command)) == ["analysis", "tokens", "drafts", "plain"]


def test_steps_stay_that_pay_or_that_no_analysis_judges(capsys):
    write(Path("task/train.jsonl"), lines())
    steps = done(capsys, *write_recipe(), "--dry-run")
    assert [step["left_out"] for step in steps] == [None] * 4
    assert steps[0]["verdict"]["fine_tune"] is True
    write_labels()
    alone = "".join(line + "\n" for line in STEPS.splitlines() if "analysis" not in line)
    steps = done(capsys, *write_recipe(alone), "--dry-run")
    assert [(step["left_out"], step["verdict"]) for step in steps] == [(None, None)] * 3


def test_a_dry_run_judges_what_it_can(capsys):
    """The tokenizer of a step that has not run is not there."""
    write_labels()
    tokens = "\n  tokens: {command: augment, tokenizer: tok, new_tokens: 1}"
    command = write_recipe(f"{tokens}\n  analysis: {{command: analyze, tokenizer: tokens}}\n")
    assert "Verdict" not in printed(capsys, *command, "--dry-run")
    printed(capsys, *command)
    assert "Verdict: neither" in printed(capsys, *command, "--dry-run")


def test_other_models_of_a_step_stay():
    bench = BenchOptions(source="builtin:stdlib-tokens", models=("a", "b=tuned", "tuned"))
    assert without(bench, {"other"}) == bench
    fewer = without(bench, {"tuned"})
    assert fewer is not None
    assert fewer.named("models") == ("a",)
    assert without(bench, {"tuned", "a"}) is None


def test_the_number_of_tokens_is_chosen_from_all_rows(capsys):
    write(Path("task/train.jsonl"), lines())
    write_recipe(STEPS + "  some: {command: augment, tokenizer: tok, new_tokens: 2}\n")
    limits = {
        name: step.limit for name, step in read(Path("r.yaml"), RunOptions(limit=9)).steps.items()
    }
    assert limits == {"analysis": None, "tokens": None, "drafts": 9, "plain": 9, "some": 9}


def test_init_leaves_out_what_does_not_pay_and_its_comments_put_it_back(capsys):
    make_model(Path("tok"))
    made = done(capsys, "init", write_labels(), *COLUMNS, "--model", "tok")
    assert (made["left_out"], made["verdict"]["choice"]) == (True, "neither")
    recipe = Path("recipe.yaml")
    steps = read(recipe, RunOptions()).steps
    assert list(steps) == ["analysis", "baseline", "bench"]
    assert steps["bench"].named("models") == ("baseline",)
    text = recipe.read_text()
    assert made["verdict"]["reasons"][0][:60] in text
    begin = text.index("  # tokens:")
    back = re.sub("(?m)^  # ", "  ", text[begin:]).replace("[baseline]", "[baseline, tasc-ft]")
    recipe.write_text(text[:begin] + back)
    steps = read(recipe, RunOptions()).steps
    assert list(steps) == ["analysis", "tokens", "baseline", "tasc-ft", "bench"]
    tokens = steps["tokens"]
    assert isinstance(tokens, AugmentOptions)
    assert tokens.new_tokens == 2


def test_init_and_run_say_the_verdict_of_analyze(capsys):
    make_model(Path("tok"))
    data = write_form("csv", lines())
    size, choice, reason = judged(capsys, *data)
    made = done(capsys, "init", *data, "--model", "tok")
    assert (made["verdict"]["choice"], made["verdict"]["reasons"][0]) == (choice, reason)
    assert not made["left_out"]
    assert f"new_tokens: auto       # now {size}, " in Path("recipe.yaml").read_text()
    planned = done(capsys, "run", "recipe.yaml", "--dry-run")
    assert planned[0]["verdict"] == made["verdict"]


def test_a_cut_of_the_training_examples_does_not_choose(capsys, monkeypatch):
    make_model(Path("tok"))
    cut = {"limit": 50, "test": 7, "minutes": 3.0, "epochs": 2.0}
    monkeypatch.setattr(values, "within", lambda made, *_: replace(made, **cut))
    data = (*write_form("csv", lines()), "--template", "{input}\\n")
    done(capsys, "init", *data, "--model", "tok", "--hours", "1")
    steps = read(Path("recipe.yaml"), RunOptions()).steps
    assert [steps[name].limit for name in ("tokens", "baseline", "tasc-ft")] == [None, 50, 50]
    text = Path("recipe.yaml").read_text()
    assert "limit: 50            # of 208 training examples, for 1 h in total" in text
    assert "limit: 7               # of 26 test examples" in text


def test_comments_fit_the_numbers_of_the_recipe(capsys):
    done(capsys, "init", *write_form("csv", lines()))
    assert "limit: 26              # all test examples" in Path("recipe.yaml").read_text()


def test_labels_are_found_in_chats_as_in_columns(capsys):
    rows = [
        {"line": f"review {i} of a good day", "template": ("good", "bad", "neutral")[i % 3]}
        for i in range(120)
    ]
    for form in ("jsonl", "chats"):
        Path(form).mkdir()
        data = write_form(form, rows)
        made = done(capsys, "init", *data, "--recipe", f"{form}/recipe.yaml")
        assert (made["constraint"], made["left_out"]) == (f"{form}/logs-labels.txt", True)
        assert Path(made["constraint"]).read_text() == "bad\ngood\nneutral\n"
        steps = read(Path(form, "recipe.yaml"), RunOptions()).steps
        assert list(steps) == ["base", "analysis", "baseline", "bench"]
        assert steps["bench"].named("methods") == ("ar", "tasc-spec", "choices")


def test_words_do_not_overrule_a_verdict(capsys, monkeypatch):
    """Labels of several tokens: new tokens save steps, whether or not a label is one word."""
    make_model(Path("tok"))
    words = ("catastrophe", "celebration", "competition")
    rows = [{"line": f"review {i}", "template": words[i % 3]} for i in range(120)]
    data = write_form("jsonl", rows)
    made = done(capsys, "init", *data, "--model", "tok")
    assert (made["verdict"]["fine_tune"], made["left_out"]) == (True, False)
    text = Path("recipe.yaml").read_text()
    assert "tasc-out/try" in text
    assert "--limit 48 " in text  # half of the 96 training examples


def test_lists_of_labels_are_found_in_columns_and_chats(capsys):
    rng = random.Random(0)
    topics = ["arts", "law", "news", "sports"]
    lists = [rng.sample(topics, 1 + i % 3) for i in range(120)]
    forms: dict[str, tuple[Callable[[list[str]], object], str, str | None]] = {
        "jsonl": ("; ".join, "grammar", ";"),
        "chats": (", ".join, "grammar", ","),
        "array": (list, "grammar", " "),  # a column of lists, which are joined by spaces
        "json": (json.dumps, "schema", None),
        "chats-json": (json.dumps, "schema", None),
    }
    for form, (write_list, option, delimiter) in forms.items():
        Path(form).mkdir()
        rows = [
            {"line": f"article {i}", "template": write_list(labels)}
            for i, labels in enumerate(lists)
        ]
        data = write_form(form.partition("-")[0] if "chats" in form else "jsonl", rows)
        made = done(capsys, "init", *data, "--recipe", f"{form}/recipe.yaml")
        assert made["fitting"] == 1.0, form
        task = yaml.safe_load(Path(form, "task.yaml").read_text())
        assert (option in task, task.get("delimiter")) == (True, delimiter), form
        bench = read(Path(form, "recipe.yaml"), RunOptions()).steps["bench"]
        assert isinstance(bench, BenchOptions)
        assert bench.metrics[0] == ("micro_f1" if option == "grammar" else "exact_match")
        assert ("json_f1" in bench.metrics) == (option == "schema")


def test_free_answers_of_chats_are_no_labels(capsys):
    made = done(capsys, "init", *write_form("chats", lines()))
    assert (made["constraint"], made["left_out"]) == (None, False)


def test_labels_are_also_chosen_by_default(tmp_path):
    labels = tmp_path / "labels.txt"
    labels.write_text("good\nbad\n")
    task = tmp_path / "task.yaml"
    task.write_text("path: builtin:stdlib-tokens\nchoices: labels.txt\n")
    given = {"source": "builtin:stdlib-tokens", "models": ("base",)}
    by_file = BenchOptions(**given | {"source": str(task)})
    assert by_file.methods == ("ar", "tasc-spec", "choices")
    assert BenchOptions(**given, choices=str(labels)).methods == by_file.methods
    assert BenchOptions(**given).methods == ("ar", "tasc-spec")
    sampled = BenchOptions(**given, choices=str(labels), temperature=0.5)
    assert sampled.methods == ("ar", "tasc-spec")
    head = BenchOptions(**given, choices=str(labels), draft_head="head")
    assert head.methods == ("ar", "mix", "choices")
