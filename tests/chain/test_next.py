"""Each command names the next one, with the data as they were named, until there is a report."""

import json
import re
import shlex

import pytest

from tests.cli import printed, tasc
from tests.data.files import jsonl, write
from tests.pico import make_base, make_tokenizer

SLOTS = [f"wake me at {n} on {day}" for n in range(40) for day in ("monday", "friday")]
ROWS = [{"say": text, "output": f"alarm_set, time and date of: {text[:8]}"} for text in SLOTS]


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for split, part in (("train", ROWS[:60]), ("test", ROWS[60:])):
        write(tmp_path / "my task" / f"{split}.jsonl", jsonl(part))
    return "my task"


def following(out: str) -> list[str]:
    lines = [line for line in out.splitlines() if line.startswith("Next: ")]
    assert len(lines) == 1, out
    return shlex.split(lines[0].removeprefix("Next: "))[1:]


def test_each_command_names_the_next_until_there_is_a_report(capsys, tmp_path, task):
    base = make_base(tmp_path / "base")
    named = ("--input-column", "say", "--template", "{input} =\\n")
    ran = ["analyze", task, "--tokenizer", str(base), *named]
    short = {
        "augment": [],
        "finetune": ["--epochs", "1", "--quantize", "none", "--limit", "8"],
        "bench": ["--limit", "2", "--max-new-tokens", "4", "--warmup", "0"],
    }
    commands = []
    while True:
        code, out, err = tasc(capsys, *ran)
        assert code == 0, err
        commands.append(ran[0])
        if ran[0] == "bench":
            break
        ran = following(out)
        assert ran[1] == task
        ran += short[ran[0]]
    assert commands == ["analyze", "augment", "finetune", "bench"]
    asked = json.loads((tmp_path / "tasc-out/bench/manifest.json").read_text())["arguments"]
    assert asked["source"]["template"] == "{input} =\n"
    measured = json.loads((tmp_path / "tasc-out/bench/results.json").read_text())["task"]
    assert measured["trained"] == measured["with_new_tokens"] == ["finetune"]
    warning = "finetune was trained with the prompt template '{input} =\\n', and the bench uses "
    assert warning not in err
    at = ran.index("--template")
    del ran[at : at + 2]
    assert f"{warning}'{{input}}\\n'" in tasc(capsys, *ran, "--output", "other")[2]


def test_a_trimmed_model_is_compared_with_its_base(capsys, tmp_path, task):
    base = make_base(tmp_path / "base")
    named = ("--input-column", "say", "--trim", "--rows", "300", "--output", "trimmed")
    out = printed(capsys, "augment", task, "--tokenizer", base, *named)
    assert re.search(r"Kept (2\d\d|300) of 320 tokens, \d+ of which", out)
    ran = following(out)
    assert ran[:6] == ["bench", task, "--model", str(base), "--model", "trimmed"]
    short = ("--limit", "2", "--max-new-tokens", "4", "--warmup", "0", "--method", "ar")
    printed(capsys, *ran, *short)


def test_a_trimmed_tokenizer_with_new_tokens_is_trained(capsys, tmp_path, task):
    base = make_base(tmp_path / "base")
    named = ("--input-column", "say", "--output")
    trim = ("--trim", "--new-tokens", "3", "--rows", "300")
    printed(capsys, "augment", task, "--tokenizer", base, *trim, *named, "tokens")
    short = ("--epochs", "1", "--quantize", "none", "--limit", "8", "--augmented", "tokens")
    printed(capsys, "finetune", task, "--model", base, *short, *named, "tuned")
    rows = json.loads((tmp_path / "tuned/model/config.json").read_text())["vocab_size"]
    held = json.loads((tmp_path / "tokens/merges.json").read_text())
    assert rows == len(held["kept"]) + len(held["merges"])
    assert len(held["kept"]) <= 300
    bench = ("bench", task, "--model", "tuned", "--method", "ar", "--method", "tasc-spec")
    few = ("--limit", "2", "--max-new-tokens", "4", "--warmup", "0")
    assert "2 of 2" in printed(capsys, *bench, *few, *named, "bench")


def test_data_without_a_test_split_go_on_with_a_recipe(capsys, tmp_path, task):
    write(tmp_path / "one.jsonl", jsonl([{"input": r["say"], "output": r["output"]} for r in ROWS]))
    tokenizer = make_tokenizer(tmp_path / "tokenizer")
    out = printed(capsys, "analyze", "one.jsonl", "--tokenizer", tokenizer)
    assert following(out) == ["init", "one.jsonl", "--model", "MODEL"]


def test_words_alone_go_on_with_a_tokenizer_and_too_little_data_with_nothing(
    capsys, tmp_path, task
):
    out = printed(capsys, "analyze", task, "--input-column", "say")
    assert following(out)[:4] == ["analyze", task, "--tokenizer", "MODEL"]
    write(tmp_path / "two.jsonl", jsonl([{"input": "a", "output": "b c d"}] * 2))
    few = ("analyze", "two.jsonl", "--tokenizer", make_tokenizer(tmp_path / "tokenizer"))
    out = printed(capsys, *few, "--output", "few")
    assert "Next: " not in out
    assert "Too little data to decide: 2 outputs, and 10 are needed." in out
    assert "Too little data to decide" in (tmp_path / "few/analysis.html").read_text()


def test_the_verdict_judges_the_recommended_size_that_is_shown(capsys, tmp_path, task):
    base = make_base(tmp_path / "base")
    run = ("analyze", task, "--tokenizer", base, "--input-column", "say", "--output", "a")
    out = printed(capsys, *run)
    found = json.loads((tmp_path / "a/analysis.json").read_text())
    size = found["recommended_size"]["budget"]
    assert size > 0
    tokens, verb = ("token", "is") if size == 1 else ("tokens", "are")
    assert f"Recommended size: {size:,} new {tokens}, as" in out
    subject = f"{size} new {tokens}, the recommended size, {verb}"
    (reason,) = [r for r in found["verdict"]["reasons"] if "recommended size" in r]
    assert reason.startswith(f"{subject} predicted")
    before = found["tokens"]["output"]["tokens_per_sample"] + 1
    ratio = before / found["recommended_size"]["train_steps"]
    assert f"{ratio:.2f}× fewer" in reason


def test_inputs_without_entropy_show_no_change_of_it(capsys, tmp_path):
    rows = [{"input": "say", "output": f"set the alarm {i} to {i + 1}"} for i in range(20)]
    file = write(tmp_path / "same.jsonl", jsonl(rows))
    out = printed(capsys, "analyze", file, "--output", tmp_path / "a")
    assert re.search(r"^ *change +-( |$)", out, re.MULTILINE)
    assert "from inputs to outputs: -." in (tmp_path / "a/analysis.html").read_text()
