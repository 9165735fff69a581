"""``tasc vocab`` and the methods with a draft model, through the command line."""

import json

from tests.cli import tasc
from tests.pico import make_base, make_tokenizer
from tests.recipes import write_splits


def write_task(folder):
    rows = [
        {"input": f"wake me at {n}", "output": f"intent: alarm_set, time: {n}"} for n in range(12)
    ]
    return write_splits(folder, rows)


def test_vocab_compares_two_models_and_recommends(capsys, tmp_path):
    task = write_task(tmp_path / "task")
    target, draft = make_base(tmp_path / "target"), make_base(tmp_path / "draft", seed=1)
    make_tokenizer(draft, ["play some jazz"], 270)
    output = tmp_path / "out"
    code, out, err = tasc(
        capsys, "vocab", target, draft, "--data", task, "--output", output, "--prompts", 3
    )
    assert code == 0, err
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


def test_vocab_of_tokenizers_alone_measures_no_acceptance(capsys, tmp_path):
    task = write_task(tmp_path / "task")
    one = make_tokenizer(tmp_path / "one")
    code, out, err = tasc(
        capsys, "vocab", one, one, "--data", task, "--output", tmp_path / "out", "--json"
    )
    assert code == 0, err
    result = json.loads(out)
    assert result["expected_acceptance"] is None
    assert result["algorithm"] == "standard"
    augmented = tmp_path / "augmented"
    assert (
        tasc(capsys, "augment", task, "--tokenizer", one, "--budget", 2, "--output", augmented)[0]
        == 0
    )
    code, _, err = tasc(capsys, "vocab", one, augmented, "--data", task, "--output", tmp_path / "b")
    assert code == 0, err
    code, _, err = tasc(
        capsys,
        "tune",
        task,
        "--tokenizer",
        augmented,
        "--split",
        "test",
        "--output",
        tmp_path / "c",
    )
    assert code == 0, err
    code, _, err = tasc(capsys, "vocab", one, tmp_path / "nowhere", "--data", task)
    assert code == 2
    assert "no such tokenizer" in err


def test_bench_drafts_with_another_vocabulary(capsys, tmp_path):
    task = write_task(tmp_path / "task")
    target, draft = make_base(tmp_path / "target"), make_base(tmp_path / "draft", seed=1)
    make_tokenizer(draft, ["play some jazz"], 270)
    methods = [x for m in ("ar", "slem", "tli", "slrs", "union") for x in ("--method", m)]
    arguments = ["bench", task, "--model", target, "--draft", draft, *methods]
    output = tmp_path / "out"
    code, out, err = tasc(
        capsys, *arguments, "--max-new-tokens", 12, "--limit", 3, "--output", output, "--json"
    )
    assert code == 0, err
    for cell in json.loads(out)["cells"]:
        assert cell["lossless"]["identical"] == cell["lossless"]["of"] == 3
    arguments[-1] = "standard"
    code, _, err = tasc(capsys, *arguments, "--output", tmp_path / "other")
    assert code == 2
    assert "needs one vocabulary" in err
    assert not (tmp_path / "other").exists()
