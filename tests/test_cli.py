"""Every command through the command line, on real subsets, as a user would chain them."""

import json
from pathlib import Path

import pytest

from tests.cli import tasc

LIMIT = 300


def done(capsys, *arguments: object) -> dict:
    """Run a command with --json; return what it printed: JSON and nothing else."""
    code, out, err = tasc(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("chain")


@pytest.fixture
def massive(data_dir):
    return data_dir / "massive-en"


# The tests below are one chain: each uses what those before it wrote.


def test_base_trains_a_model_that_transformers_loads(capsys, folder, massive):
    result = done(
        capsys,
        *("base", massive, "--preset", "pico", "--epochs", 2, "--limit", LIMIT),
        *("--output", folder / "base"),
    )
    assert result["steps"] > 0
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder / "base")
    tokenizer = AutoTokenizer.from_pretrained(folder / "base")
    assert model.config.model_type == "qwen2"
    text = "wake me up at five am"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_analyze_predicts_what_augment_reaches(capsys, folder, massive):
    analysis = done(
        capsys,
        *("analyze", massive, "--tokenizer", folder / "base", "--budget", 0, "--budget", 40),
        *("--limit", LIMIT, "--output", folder / "analysis"),
    )
    augmentation = done(
        capsys,
        *("augment", massive, "--tokenizer", folder / "base", "--budget", 40),
        *("--limit", LIMIT, "--output", folder / "augmented"),
    )
    points = {p["budget"]: p for p in analysis["tokens"]["budgets"]}
    train = augmentation["train"]["tokens_per_output"]
    assert points[0]["tokens_per_output"] == pytest.approx(train["before"])
    assert train["reached"] == pytest.approx(points[40]["tokens_per_output"], rel=0.1)
    assert augmentation["held_out"]["ratio"] > 1.5


def test_augmented_folder_loads_in_transformers_and_lists_its_merges(folder, massive):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "augmented")
    merges = json.loads((folder / "augmented" / "merges.json").read_text())["merges"]
    assert len(merges) == 40
    assert {"ids", "new_id", "string", "frequency", "reward", "pcs"} <= set(merges[0])
    rows = [json.loads(line) for line in (massive / "test.jsonl").read_text().splitlines()[:200]]
    produced = set()
    for row in rows:
        ids = tokenizer(row["output"], add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == row["output"]
        produced |= set(ids)
    assert produced & {m["new_id"] for m in merges}


def test_finetune_with_new_tokens_writes_adapter_and_plain_model(capsys, folder, massive):
    for name, extra in {"plain": (), "ft": ("--augmented", folder / "augmented")}.items():
        result = done(
            capsys,
            *("finetune", massive, "--model", folder / "base", *extra, "--merge"),
            *("--epochs", 1, "--limit", LIMIT, "--output", folder / name),
        )
        assert result["trainable_parameters"] < result["total_parameters"]
    assert (folder / "ft" / "adapter" / "adapter_model.safetensors").is_file()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder / "ft" / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder / "ft" / "model")
    assert model.get_input_embeddings().weight.shape[0] >= len(tokenizer)


def test_bench_measures_every_cell_and_every_method_is_lossless(capsys, folder, massive):
    result = done(
        capsys,
        *("bench", massive, "--model", f"baseline={folder / 'plain'}", "--model", folder / "ft"),
        *("--method", "ar", "--method", "tasc-spec", "--method", "tasc-spec:width=1,budget=6"),
        *("--metric", "exact_match", "--metric", "micro_f1", "--delimiter", ","),
        *("--limit", 12, "--max-new-tokens", 24, "--output", folder / "bench"),
    )
    assert [(c["model"], c["method"]) for c in result["cells"]] == [
        (model, method)
        for model in ("baseline", "ft")
        for method in ("ar", "tasc-spec", "tasc-spec:width=1,budget=6")
    ]
    for cell in result["cells"]:
        assert cell["lossless"]["identical"] == cell["lossless"]["of"] == 12
        assert 0 <= cell["quality"]["micro_f1"] <= 1
        assert cell["ms_per_sample"] > 0
    chain = result["cells"][2]
    assert chain["accepted_by_position"] == sorted(chain["accepted_by_position"], reverse=True)
    page = (folder / "bench" / "report.html").read_text()
    assert page.count("<svg") == 2
    assert page.count('class="bar"') == 6
    assert "<script" not in page


def test_a_batched_bench_gives_the_outputs_of_single_sequences(capsys, folder, massive):
    options = ("bench", massive, "--model", folder / "plain", "--limit", 12, "--max-new-tokens", 24)
    alone = done(capsys, *options, "--output", folder / "bench-alone")
    batched = done(capsys, *options, "--batch-size", 5, "--output", folder / "bench-batched")
    assert (alone["settings"]["batch_size"], batched["settings"]["batch_size"]) == (1, 5)
    for one, other in zip(alone["cells"], batched["cells"], strict=True):
        for count in ("tokens", "decoding_steps", "drafted", "accepted", "quality", "lossless"):
            assert one[count] == other[count], count
        assert other["ms_per_sample"] > 0
    page = (folder / "bench-batched" / "report.html").read_text()
    assert "batch 5" in page
    assert "share of the batch's time" in page


def test_a_sampled_bench_says_that_outputs_are_not_compared(capsys, folder, massive):
    options = ("bench", massive, "--model", folder / "plain", "--limit", 6, "--max-new-tokens", 12)
    sampled = ("--temperature", 0.9, "--top-k", 20, "--top-p", 0.95, "--seed", 5)
    first = done(capsys, *options, *sampled, "--output", folder / "sampled")
    again = done(capsys, *options, *sampled, "--output", folder / "sampled-again")
    other = done(
        capsys, *options, *sampled, "--batch-size", 4, "--output", folder / "sampled-batch"
    )
    greedy = done(capsys, *options, "--output", folder / "greedy")
    assert first["settings"]["sampling"] == {
        "temperature": 0.9,
        "top_k": 20,
        "top_p": 0.95,
        "seed": 5,
        "verify": "sampled",
    }
    for name in ("tokens", "accepted", "quality"):
        cells = [[c[name] for c in r["cells"]] for r in (first, again, other)]
        assert cells[0] == cells[1] == cells[2], name
    assert all(c["lossless"] is None for c in first["cells"])
    counts = [[r["cells"][1][n] for n in ("drafted", "accepted")] for r in (first, greedy)]
    assert counts[0] != counts[1]
    speed = first["cells"][1]["tokens_per_second"] / first["cells"][0]["tokens_per_second"]
    assert first["comparisons"][0]["speedup"] == pytest.approx(speed)
    assert (
        "Outputs were sampled at temperature 0.9"
        in (folder / "sampled" / "report.html").read_text()
    )
    code, out, err = tasc(capsys, *options, *sampled, "--force", "--output", folder / "sampled")
    assert code == 0, err
    assert "outputs differ by chance" in out
    for option in (("--top-k", 5), ("--verify", "multi-branch")):
        code, _, err = tasc(capsys, *options, *option, "--output", folder / "sampled-x")
        assert code == 2
        assert "give a temperature, too" in err


def test_a_sampled_bench_verifies_as_it_is_asked(capsys, folder, massive):
    options = ("bench", massive, "--model", folder / "plain", "--method", "standard")
    options = (*options, "--draft", folder / "plain", "--limit", 4, "--max-new-tokens", 12)
    accepted = {}
    for verify in ("sampled", "rejection"):
        output = folder / f"verify-{verify}"
        result = done(capsys, *options, "--temperature", 2, "--verify", verify, "--output", output)
        assert result["settings"]["sampling"]["verify"] == verify
        assert f"verifier {verify}" in (output / "report.html").read_text()
        cell = result["cells"][0]
        accepted[verify] = cell["accepted"], cell["drafted"]
    assert accepted["rejection"][0] == accepted["rejection"][1], "p = q: nothing is rejected"
    assert accepted["sampled"][0] < accepted["sampled"][1]


def test_a_bench_with_an_adaptive_budget_is_lossless_and_not_batched(
    capsys, folder, massive, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = ("bench", massive, "--model", folder / "plain", "--limit", 6, "--method", "ar")
    adaptive = ("--method", "tasc-spec:budget=auto")
    result = done(capsys, *options, *adaptive, "--output", folder / "bench-auto")
    assert result["cells"][1]["lossless"]["identical"] == 6
    assert [p.name[:5] for p in (tmp_path / "tasc").iterdir()] == ["cost-"]
    code, _, err = tasc(
        capsys, *options, *adaptive, "--batch-size", 2, "--output", folder / "bench-x"
    )
    assert code == 2
    assert "give a number with --batch-size" in err


def test_a_saved_index_stands_for_the_corpus_in_a_bench(capsys, folder, massive):
    made = done(
        capsys,
        *("index", massive, "--tokenizer", folder / "plain" / "model"),
        *("--output", folder / "index"),
    )
    assert made["outputs"] == 11514
    assert 0 < made["bytes_per_token"] <= 16
    command = ("bench", massive, "--model", folder / "plain", "--index", f"mine={folder / 'index'}")
    result = done(
        capsys,
        *(*command, "--method", "ar", "--method", "corpus", "--limit", 6, "--max-new-tokens", 24),
        *("--output", folder / "bench-index"),
    )
    assert result["cells"][1]["drafted"] > 0
    assert result["cells"][1]["lossless"]["identical"] == 6
    path = folder / "index" / "index.tasc"
    path.write_bytes(path.read_bytes()[:-3])
    code, out, err = tasc(capsys, *command, "--limit", 2, "--output", folder / "bench-broken")
    assert code == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert "index.tasc" in err
    assert not (folder / "bench-broken").exists()


def test_tuning_needs_no_model_and_never_chooses_worse_than_the_default(capsys, folder, massive):
    result = done(
        capsys,
        *("bench", massive, "--tune", "--tokenizer", folder / "plain" / "model", "--limit", 20),
        *("--output", folder / "tuned"),
    )
    assert result["tokens_per_step"] >= result["default"]["tokens_per_step"] > 1
    assert result["task"]["split"] == "validation"
    from tasc.spec.drafters import parse

    assert parse(result["method"]).budget == 12
    assert result["tokens_per_step"] == max(t["tokens_per_step"] for t in result["trials"])


def test_bench_refuses_an_adapter_without_a_plain_model(capsys, folder, massive):
    done(
        capsys,
        *("finetune", massive, "--model", folder / "base", "--epochs", 0.2, "--limit", 64),
        *("--output", folder / "adapter-only"),
    )
    code, _, err = tasc(
        capsys,
        *("bench", massive, "--model", folder / "adapter-only", "--limit", 2),
        *("--output", folder / "bench-2"),
    )
    assert code == 2
    assert "--merge" in err


def test_a_draft_head_is_trained_and_benched(capsys, folder, massive):
    result = done(
        capsys,
        *("finetune", massive, "--model", folder / "base", "--draft-head", "--limit", 24),
        *("--epochs", 2, "--max-new-tokens", 12, "--validation", "test"),
        *("--output", folder / "head"),
    )
    assert result["steps"] == 4
    assert {p.name for p in (folder / "head" / "head").iterdir()} == {
        "config.json",
        "model.safetensors",
    }
    result = done(
        capsys,
        *("finetune", massive, "--model", folder / "base", "--draft-head", "--head", "medusa"),
        *("--heads", 2, "--limit", 24, "--epochs", 1, "--max-new-tokens", 12),
        *("--validation", "test", "--output", folder / "medusa"),
    )
    assert result["trainable_parameters"] == 2 * (64 * 64 + 64)
    head = ("finetune", massive, "--model", folder / "base", "--draft-head", "--heads", 2)
    code, _, err = tasc(capsys, *head, "--output", folder / "eagle")
    assert code == 2
    assert "heads: only Medusa has several, add head=medusa" in err
    counts = folder / "counts"
    done(capsys, "analyze", massive, "--tokenizer", folder / "base", "--output", counts)
    methods = ("--method", "ar", "--method", "eagle", "--method", "fr-spec:size=64,depth=3")
    heads = ("--draft-head", folder / "medusa", "--draft-head", folder / "head")
    plain = ("--method", "standard:size=64", "--draft", folder / "base")
    bench = ("bench", massive, "--model", folder / "base", "--limit", 3, "--max-new-tokens", 12)
    result = done(
        capsys,
        *(*bench, *methods, *plain, "--method", "medusa:size=64", *heads, "--token-counts", counts),
        *("--output", folder / "bench-head"),
    )
    assert all(c["lossless"]["identical"] == 3 for c in result["cells"])
    code, _, err = tasc(capsys, *bench, *methods, *heads[:2], "--output", folder / "bench-other")
    assert code == 2
    assert "decode with the method medusa" in err
    code, _, err = tasc(capsys, *bench, *methods, "--output", folder / "bench-headless")
    assert code == 2
    assert "tasc finetune --draft-head" in err
    code, _, err = tasc(
        capsys,
        *(*bench, *methods, "--draft-head", folder / "head", "--token-counts", folder / "base"),
        *("--output", folder / "bench-countless"),
    )
    assert code == 2
    assert "no token counts; tasc analyze --tokenizer writes them" in err


def test_a_head_and_an_adapter_are_not_trained_at_once(capsys, folder, massive):
    code, _, err = tasc(
        capsys,
        *("finetune", massive, "--model", folder / "base", "--draft-head", "--merge"),
        *("--output", folder / "both"),
    )
    assert code == 2
    assert "leave out augmented, merge" in err
    code, _, err = tasc(
        capsys,
        *("finetune", massive, "--model", folder / "base", "--head", "medusa"),
        *("--output", folder / "both"),
    )
    assert code == 2
    assert "head=medusa is a kind of draft head: add draft_head" in err


RECIPE = """
name: small
description: the chain, small
data: {path: massive-en}
steps:
  base: {command: base, preset: pico, epochs: 1, limit: 120}
  tokens: {command: augment, tokenizer: base, budget: 20, limit: 120}
  tasc-ft: {command: finetune, model: base, augmented: tokens, epochs: 1, merge: true, limit: 120}
  bench: {command: bench, models: [base, tasc-ft], limit: 4, max_new_tokens: 16, warmup: 1}
"""


def test_run_does_each_step_once_and_again_only_what_changed(capsys, tmp_path, data_dir):
    recipe = tmp_path / "small.yaml"
    recipe.write_text(RECIPE)
    command = ("run", recipe, "--data-dir", data_dir, "--output", tmp_path / "out")
    code, out, err = tasc(capsys, *command)
    assert code == 0, err
    assert [line.partition(" (")[0] for line in err.splitlines()] == [
        f"{step}: done" for step in ("base", "tokens", "tasc-ft", "bench")
    ]
    assert out.strip().splitlines()[-1].split()[:2] == ["tasc-ft", "tasc-spec"]
    code, _, err = tasc(capsys, *command)
    assert err.count("up to date") == 4
    recipe.write_text(RECIPE.replace("budget: 20", "budget: 25"))
    code, _, err = tasc(capsys, *command)
    assert code == 0
    assert [line.partition(" (")[0] for line in err.splitlines()] == [
        "base: up to date",
        "tokens: done",
        "tasc-ft: done",
        "bench: done",
    ]


def test_doctor_and_version(capsys):
    report = done(capsys, "doctor")
    assert report["kernels"]["native"] == "built"
    assert "quickstart" in report["recipes"]
    code, out, _ = tasc(capsys, "--version")
    assert code == 0
    assert out.startswith("tasc ")


def test_every_builtin_task_can_be_analyzed(capsys, tmp_path):
    for name in ("stdlib-tokens", "stdlib-docs"):
        result = done(
            capsys, "analyze", f"builtin:{name}", "--limit", 500, "--output", tmp_path / name
        )
        assert result["samples"] == 500
    low, high = (
        json.loads((tmp_path / name / "analysis.json").read_text())
        for name in ("stdlib-tokens", "stdlib-docs")
    )
    assert low["output"]["ngrams"][1]["entropy_bits"] < high["output"]["ngrams"][1]["entropy_bits"]


def small_report(**settings):
    """Render the figures of one cell whose names are markup."""
    from tasc.bench.report import render

    cell = {
        "model": "<b>m</b>",
        "method": "ar",
        "samples": 1,
        "ms_per_sample": 1.0,
        "ms_per_sample_spread": {"p10": 1.0, "p50": 1.0, "p90": 1.0},
        "tokens_per_second": 1.0,
        "tokens_per_output": 1.0,
        "decoding_steps_per_output": 1.0,
        "acceptance_length": 1.0,
        "accepted_by_position": [],
        "seconds": dict.fromkeys(("prefill", "draft", "forward", "verify", "commit"), 0.1),
        "lossless": {"against": "ar", "identical": 1, "of": 1},
        "quality": {"exact_match": 1.0},
    }
    results = {
        "task": {
            "source": "<i>s</i>",
            "split": "test",
            "samples": 1,
            "corpus_split": "train",
            "corpus_outputs": 1,
        },
        "settings": {
            "dtype": "float32",
            "device": "cpu",
            "threads": 1,
            "repeats": 1,
            "warmup": 0,
            "max_new_tokens": 1,
            "batch_size": 1,
            "sampling": None,
            **settings,
        },
        "cells": [cell],
        "comparisons": [],
        "started": "now",
        "command_line": "tasc bench",
        "environment": {
            "tasc": "0",
            "git": None,
            "python": "3",
            "packages": {},
            "machine": {"processor": "p", "cores": 1},
        },
    }
    example = {
        "sample": 0,
        "prompt": "<script>alert(1)</script>",
        "reference": "&",
        "outputs": [{"model": "m", "text": "<img src=x>", "equal": False}],
    }
    return render(results, [example])


def test_user_text_is_escaped_in_the_report():
    page = small_report()
    assert "<script>" not in page
    assert "<img" not in page
    assert "<i>s" not in page
    assert "<b>m" not in page


def test_a_report_says_whether_it_was_sampled():
    assert "greedy;" in small_report()
    sampled = small_report(sampling={"temperature": 0.9, "verify": "sampled"})
    assert "greedy;" not in sampled
    assert "sampled;" in sampled


def test_recipes_that_come_along_are_all_readable(tmp_path, monkeypatch):
    from tasc.recipe.runner import Overrides, directory, read

    monkeypatch.delenv("TASC_DATA", raising=False)
    recipes = sorted(directory().glob("*.yaml"))
    assert len(recipes) >= 5
    for path in recipes:
        plan = read(path, Overrides())
        assert plan.steps, path
        known: set[str] = set()
        for name, step in plan.steps.items():
            for field in step.references:
                value = getattr(step, field)
                for text in value if isinstance(value, tuple) else (value,):
                    assert text is None or text in known or "/" in text, f"{path}: {name}: {text}"
            known.add(name)
        assert Path(path).read_text().startswith("# "), f"{path} does not say what it is for"
