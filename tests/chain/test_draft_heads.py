"""Draft heads through the command line."""

import json

import pytest

from tests.cli import done, refused


@pytest.fixture(scope="module")
def head(chain, base):
    options = ("--model", base, "--draft-head", "--limit", 24, "--max-new-tokens", 12)
    return chain("head", "finetune", *options, "--validation", "test", "--epochs", 2)


@pytest.fixture
def bench(massive, base, tmp_path):
    options = ("--limit", 3, "--max-new-tokens", 12, "--method", "ar", "--method", "eagle")
    return ("bench", massive, "--model", base, *options, "--output", tmp_path / "bench")


def test_a_head_is_trained_beside_a_report(head):
    assert json.loads((head / "training.json").read_text())["steps"] == 4
    assert {p.name for p in (head / "head").iterdir()} == {"config.json", "model.safetensors"}


def test_a_head_is_benched_over_all_tokens_and_frequent_ones(
    capsys, massive, base, head, bench, tmp_path
):
    done(capsys, "analyze", massive, "--tokenizer", base, "--output", tmp_path / "counts")
    result = done(
        capsys,
        *(*bench, "--method", "fr-spec:size=64,depth=3", "--draft-head", head),
        *("--method", "standard:size=64", "--draft", base, "--token-counts", tmp_path / "counts"),
    )
    assert len(result["cells"]) == 4
    assert all(c["lossless"]["identical"] == 3 for c in result["cells"])


def test_a_bench_reports_a_missing_head_or_missing_counts(capsys, base, head, bench):
    for options, message in {
        (): "tasc finetune --draft-head",
        ("--draft-head", head, "--method", "fr-spec:size=64", "--token-counts", base): (
            "does not exist: write it with tasc analyze --tokenizer"
        ),
    }.items():
        assert message in refused(capsys, *bench, *options)


def test_a_draft_head_is_not_merged(capsys, massive, tmp_path):
    command = ("finetune", massive, "--model", "any", "--draft-head", "--merge")
    error = refused(capsys, *command, "--output", tmp_path / "out")
    assert "leave out augmented and merge" in error
