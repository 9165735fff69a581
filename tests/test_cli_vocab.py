"""``tasc vocab`` and the methods with a draft model, through the command line."""

import json

import pytest

from tests.cli import done, printed, refused
from tests.pico import make_base, make_tokenizer
from tests.recipes import write_splits

ROWS = [{"input": f"wake me at {n}", "output": f"intent: alarm_set, time: {n}"} for n in range(12)]


@pytest.fixture
def task(tmp_path):
    return write_splits(tmp_path / "task", ROWS)


@pytest.fixture
def models(tmp_path):
    target, draft = make_base(tmp_path / "target"), make_base(tmp_path / "draft", seed=1)
    make_tokenizer(draft, ["play some jazz"], 270)
    return target, draft


def test_vocab_compares_two_models_and_recommends(capsys, tmp_path, task, models):
    output = tmp_path / "out"
    out = printed(capsys, "vocab", *models, "--data", task, "--output", output, "--prompts", 3)
    assert "Shared: " in out
    assert "Expected acceptance at temperature 1: union" in out
    assert "Recommended: " in out
    assert out.endswith(f"comparison: {output / 'vocabularies.json'}\n")
    saved = json.loads((output / "vocabularies.json").read_text())
    alpha = saved["expected_acceptance"]
    assert alpha["tli"] >= alpha["union"] - 1e-6
    assert alpha["slrs"] >= alpha["slem"] - 1e-6
    assert saved["target"]["size"] == 320
    assert (output / "manifest.json").is_file()


def test_vocab_of_tokenizers_alone_measures_no_acceptance(capsys, tmp_path, task):
    one, augmented = make_tokenizer(tmp_path / "one"), tmp_path / "augmented"
    result = done(capsys, "vocab", one, one, "--data", task, "--output", tmp_path / "out")
    assert result["expected_acceptance"] is None
    assert result["algorithm"] == "standard"
    tokens = ("--tokenizer", one, "--budget", 2)
    printed(capsys, "augment", task, *tokens, "--output", augmented)
    printed(capsys, "vocab", one, augmented, "--data", task, "--output", tmp_path / "b")
    tuned = ("--tokenizer", augmented, "--split", "test", "--output", tmp_path / "c")
    printed(capsys, "tune", task, *tuned)
    line = refused(capsys, "vocab", one, tmp_path / "nowhere", "--data", task)
    assert "no such tokenizer" in line


def test_bench_drafts_with_another_vocabulary(capsys, tmp_path, task, models):
    target, draft = models
    bench = ("bench", task, "--model", target, "--draft", draft)
    methods = [x for m in ("ar", "slem", "tli", "slrs", "union") for x in ("--method", m)]
    few = ("--max-new-tokens", 12, "--limit", 3, "--output", tmp_path / "out")
    for cell in done(capsys, *bench, *methods, *few)["cells"]:
        assert cell["lossless"]["identical"] == cell["lossless"]["of"] == 3
    other = ("--method", "standard", "--output", tmp_path / "other")
    assert "needs one vocabulary" in refused(capsys, *bench, *other)
    assert not (tmp_path / "other").exists()
