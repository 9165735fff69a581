"""The model card of a merged model: true, escaped, the same for the same training, and it runs."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tasc.report.markdown import code, table
from tests.cli import done
from tests.data.files import jsonl, write
from tests.pico import make_base

ROWS = [
    {"input": f"wake me at {n}", "output": f"alarm_set, at {n}, off: no"}
    for n in ("one", "two", "six")
]
LEARN = ("--epochs", 2, "--batch-size", 3, "--effective-batch", 3)
MERGED = ("--quantize", "none", "--merge")
STEERING = "`</code>\x1b[31m<script>|\u202e``x"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("models") / "mini")


@pytest.fixture
def task(tmp_path):
    return write(tmp_path / "task.jsonl", jsonl(ROWS))


def trained(capsys, task, base, output, *more) -> Path:
    done(capsys, "finetune", task, "--model", base, *LEARN, *more, "--output", output)
    return Path(output) / "model"


def test_a_card_tells_what_was_trained_on_what_and_its_code_runs(
    capsys, tmp_path, base, monkeypatch
):
    task = tmp_path / "task"
    for split in ("train", "validation"):
        write(task / f"{split}.jsonl", jsonl(ROWS))
    tokens = tmp_path / "tokens"
    done(capsys, "augment", task, "--tokenizer", base, "--budget", 2, "--output", tokens)
    model = trained(capsys, task, base, tmp_path / "out", *MERGED, "--augmented", tokens)
    card = (model / "README.md").read_text()
    report = json.loads((tmp_path / "out" / "training.json").read_text())
    assert "# `mini`, fine-tuned on `task`" in card
    assert "2 new tokens (TASC-ft)" in card
    assert "split `train`: 3 examples" in card
    assert "Prompt template: `{input}\\n`" in card
    last = report["evaluations"][-1]
    assert f"| {last['step']} | {last['loss']:.3f} |" in card
    assert f"{report['tokens']} tokens read" in card
    assert yaml.safe_load(card.split("---\n")[1]) == {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["tasc"],
    }
    assert str(tmp_path) not in card
    (snippet,) = re.findall(r"```python\n(.*?)\n```", card, re.DOTALL)
    assert "prompt = 'your input\\n'" in snippet
    monkeypatch.chdir(model)
    exec(snippet, {})


def test_the_same_training_writes_the_same_card_wherever_it_lies(capsys, tmp_path, base):
    cards = []
    for name in ("one", "two"):
        task = write(tmp_path / name / "task.jsonl", jsonl(ROWS))
        model = trained(capsys, task, base, tmp_path / name / "out", *MERGED)
        cards.append((model / "README.md").read_bytes())
        manifest = json.loads((model.parent / "manifest.json").read_text())
        assert "model/README.md" in manifest["files"]
    assert cards[0] == cards[1]
    held = b"linear layers not quantized during training. Embeddings trained: used."
    assert held in cards[0]


def test_what_others_named_steers_no_card(capsys, tmp_path, base):
    task = tmp_path / "a`b<b>|c.jsonl"
    column = f"in{STEERING}"
    write(task, jsonl([{column: row["input"], "output": row["output"]} for row in ROWS]))
    given = ("--input-column", column, "--template", "<script>```{input}\\n")
    model = trained(capsys, task, base, tmp_path / "out", *MERGED, *given)
    card = (model / "README.md").read_text()
    assert not set(card) & {"\x1b", "\u202e"}
    assert "`` a`b<b>|c.jsonl ``" in card
    outside = re.sub(r"^```.*?^```$|(`+)(?!`).*?(?<!`)\1(?!`)", "", card, flags=re.DOTALL | re.M)
    assert "<" not in outside


def test_without_merging_there_is_no_card(capsys, tmp_path, base, task):
    trained(capsys, task, base, tmp_path / "out")
    assert not list((tmp_path / "out").rglob("README.md"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "`plain`"),
        ("a`b", "`` a`b ``"),
        ("```", "```` ``` ````"),
        (" x", "`  x `"),
        ("a\nb\x1b", "`a\\nb\\x1b`"),
        ("", ""),
    ],
)
def test_code_holds_any_text(text, expected):
    assert code(text) == expected


def test_a_bar_in_a_cell_ends_no_cell():
    assert table(["a"], [["x|y"]]).splitlines()[-1] == "| x\\|y |"


def test_a_card_of_a_model_without_adapters_names_none(capsys, tmp_path, base, task):
    model = trained(capsys, task, base, tmp_path / "o", "--adapter", "none")
    card = (model / "README.md").read_text()
    assert "`mini` with all weights trained." in card
    assert "All weights trained, without adapters." in card
    assert "LoRA" not in card
