"""A constraint through the commands: task file, analyze, bench, export and vLLM's drafts."""

import json

import jsonschema
import llguidance
import numpy as np
import pytest

from tasc.decoding.core.grammar import Grammar, text_test
from tasc.options.constraint import Constraint, read_constraint
from tasc.serving.options import ServeOptions
from tasc.serving.serve import command
from tasc.serving.vllm import TascProposer
from tasc.tokenizer.loaded import load_tokenizer
from tests.cli import done, printed, refused
from tests.decoding.grammars import SCHEMA
from tests.options import AnalyzeOptions, BenchOptions
from tests.recipes import write_splits
from tests.serving.engine import configured

OUTPUTS = [
    json.dumps({"intent": intent, "slots": {"time": time}})
    for intent in ("alarm_set", "alarm_query", "audio_volume_up")
    for time in ("nine", "ten")
] + ["not JSON"]


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """A task file with a schema beside it, and data of which one output in seven is invalid."""
    folder = tmp_path_factory.mktemp("task")
    rows = [{"input": f"do {i}", "output": OUTPUTS[i % 7]} for i in range(42)]
    write_splits(folder, rows)
    small = SCHEMA | {"properties": SCHEMA["properties"] | {"slots": {"enum": [{}, {"a": "b"}]}}}
    (folder / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (folder / "small.json").write_text(json.dumps(small), encoding="utf-8")
    (folder / "task.yaml").write_text("path: .\nschema: schema.json\n", encoding="utf-8")
    return folder


def test_a_task_file_carries_its_schema_and_another_constraint_replaces_it(task):
    file = str(task / "task.yaml")
    assert BenchOptions(source=file, models=("m",)).schema == str(task / "schema.json")
    other = AnalyzeOptions(source=file, regex="a+")
    assert (other.schema, other.regex) == (None, "a+")


def test_analyze_predicts_what_the_constraint_saves(capsys, tmp_path, base, task):
    options = ("analyze", task / "task.yaml", "--tokenizer", base, "--held-out", "test")
    found = done(capsys, *options, "--output", tmp_path / "a")["structured"]
    assert found["valid"] == pytest.approx(6 / 7)
    assert found["samples"] == 36
    assert 0.3 < found["determined"] < 0.9
    names = {row["name"]: row["tokens_per_step"] for row in found["methods"]}
    assert 1 < names["constraint"] < names["both"]
    assert names["n-grams"] <= names["both"]
    assert found["methods"][3]["name"] == "both, with new tokens"
    steps = [row["steps_per_output"] for row in found["methods"]]
    assert steps[3] < steps[2] == min(steps[:3])
    out = printed(capsys, *options, "--output", tmp_path / "b")
    assert "85.7% of the held-out outputs satisfy schema" in out


def test_every_method_of_a_bench_writes_valid_outputs(capsys, tmp_path, base, task):
    found = done(
        *(capsys, "bench", task / "task.yaml", "--schema", task / "small.json", "--model", base),
        *("--method", "ar", "--method", "grammar", "--method", "tasc-spec:budget=6"),
        *("--limit", 3, "--max-new-tokens", 70, "--output", tmp_path / "bench"),
    )
    assert [cell["lossless"]["match_rate"] for cell in found["cells"]] == [1, 1, 1]
    assert found["reference"][0]["match_rate"] == 1
    outputs = found["cells"][2]["outputs"]
    assert len(outputs) == 3
    for output in outputs:
        if not output["cut"]:
            jsonschema.validate(json.loads(output["text"]), SCHEMA)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--method", "grammar"), "needs schema, grammar, regex or choices"),
        (("--schema", "none.json"), "no schema file 'none.json'"),
        (("--regex", "a", "--grammar", "b"), "exclude each other"),
        (("--regex", "("), "cannot be used"),
    ],
)
def test_a_mistake_is_one_line(capsys, tmp_path, base, task, options, reason):
    run = ("bench", task, "--model", base, *options, "--limit", 1, "--output", tmp_path / "bench")
    assert reason in refused(capsys, *run)


def test_an_export_carries_the_schema_and_vllm_drafts_by_it(capsys, tmp_path, base, task):
    folder = tmp_path / "served"
    done(capsys, "export", base, "--to", "vllm", "--data", task / "task.yaml", "--output", folder)
    assert json.loads((folder / "schema.json").read_text(encoding="utf-8")) == SCHEMA
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert '"schema": "schema.json"' in readme
    assert "structured_outputs" in readme
    assert '--structured-outputs-config \'{"backend": "guidance"}\'' in readme


def test_the_grammar_of_an_export_is_that_of_bench_in_vllms_backend(capsys, tmp_path, base):
    """vLLM's backend guidance passes a grammar to llguidance as it is (vllm 0.32.0)."""
    values = [{"größe": i, "wo": ["Köln", "Rom"][i % 2]} for i in range(40)]
    rows = [{"input": f"do {v['größe']}", "output": json.dumps(v, indent=1)} for v in values]
    write_splits(tmp_path / "data", rows)
    (tmp_path / "schema.json").write_text('{"type": "object"}', encoding="utf-8")
    given = ("--data", tmp_path / "data", "--schema", tmp_path / "schema.json")
    done(capsys, "export", base, "--to", "vllm", *given, "--output", tmp_path / "served")
    schema = json.loads((tmp_path / "served/schema.json").read_text(encoding="utf-8"))
    assert schema["x-json-dumps"] == {"indent": 1, "ensure_ascii": True}
    text = (tmp_path / "served/outputs.lark").read_text(encoding="utf-8")
    engine = llguidance.LLTokenizer("byte")
    served = llguidance.LLMatcher(engine, llguidance.grammar_from("grammar", text), log_level=0)
    measured = text_test(Constraint.of_schema(schema))
    texts = [json.dumps(value, indent=indent) for value in values[:3] for indent in (None, 1, 2)]
    for written in [*texts, '{\n "a": 1', "[]"]:
        matcher, units = served.deep_copy(), list(written.encode())
        taken = matcher.try_consume_tokens(units)
        assert (taken == len(units) and matcher.is_accepting()) == measured(written)
    assert all(map(measured, texts[1::3]))
    assert not any(map(measured, texts[::3]))


def test_outputs_that_do_not_fit_are_explained_with_the_remedy(capsys, tmp_path, base):
    rows = [{"input": f"do {i}", "output": f'{{"a":{i},"b":"é"}}'} for i in range(40)]
    write_splits(tmp_path / "data", rows)
    (tmp_path / "s.json").write_text('{"x-json-dumps": {}, "type": "object"}', encoding="utf-8")
    options = ("--schema", tmp_path / "s.json", "--held-out", "test", "--tokenizer", base)
    out = printed(capsys, "analyze", tmp_path / "data", *options, "--output", tmp_path / "a")
    plain = " ".join(out.split())
    assert "0.0% of the held-out outputs satisfy schema" in plain
    assert "their layout, json.dumps(…, separators=(',', ':')" in plain
    assert 'add "x-json-dumps": {"separators": [",", ":"]' in plain
    (tmp_path / "s.json").write_text('{"type": "object"}', encoding="utf-8")
    out = printed(capsys, "analyze", tmp_path / "data", *options, "--output", tmp_path / "b")
    assert "100.0% of the held-out outputs satisfy schema" in " ".join(out.split())


@pytest.mark.parametrize(
    ("option", "value", "served"),
    [
        ("--regex", "[a-z]+/\\d", ("regex", "[a-z]+/\\d")),
        ("--choices", "labels.txt", ("grammar", "grammar.lark")),
        ("--grammar", "own.lark", ("grammar", "grammar.lark")),
    ],
)
def test_a_served_export_drafts_by_every_kind_of_constraint(
    capsys, monkeypatch, tmp_path, base, task, option, value, served
):
    (tmp_path / "labels.txt").write_text('one\n"two"\n', encoding="utf-8")
    (tmp_path / "own.lark").write_text('start: "one" | "\\"two\\""', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    data = ("--data", task, "--output", "served")
    done(capsys, "export", base, "--to", "vllm", *data, option, value)
    monkeypatch.setattr("tasc.serving.serve.find_spec", lambda _: True)
    monkeypatch.setattr("tasc.serving.hook.problem", lambda _: None)
    words = command(ServeOptions(folder="served"))
    ours = json.loads(words[words.index("--additional-config") + 1])["tasc"]
    name, given = served
    assert ours[name] == given
    read = read_constraint(**{name: f"served/{given}" if name == "grammar" else given})
    assert read is not None
    tokenizer = load_tokenizer(str(base))
    found = Grammar(read, tokenizer, (tokenizer.eos_id,))
    fits = "ab/7" if name == "regex" else '"two"'
    assert found.accepts(tokenizer.encode([fits]).tokens.tolist())


@pytest.mark.parametrize("option", ["--regex", "--grammar", "--schema"])
def test_serve_takes_the_constraint_of_its_export_only(capsys, option):
    line = refused(capsys, "serve", "served", option, "a")
    assert line.startswith(f"error: tasc serve: no such option: {option}")
    assert line.endswith(": see tasc serve --help\n")


@pytest.mark.parametrize("constrained", [False, True])
def test_vllms_drafts_are_determined_text_within_the_limit(base, task, constrained):
    schema = {"schema": str(task / "schema.json")} if constrained else {}
    tokenizer = load_tokenizer(str(base))
    prompt, output = (tokenizer.encode([text]).tokens.tolist() for text in ("do\n", OUTPUTS[0]))
    tokens = np.zeros((1, 400), np.int32)
    sequence = [*prompt, output[0]]
    tokens[0, : len(sequence)] = sequence
    options = {"method": "prompt-lookup", "guard": False, **schema}
    made = TascProposer(configured(base, options, 3))
    (draft,) = made.propose([[output[0]]], np.array([len(sequence)], np.int32), tokens)
    assert draft == (output[1:4] if constrained else [])
