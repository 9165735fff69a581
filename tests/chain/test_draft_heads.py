"""Draft heads through the command line."""

import json

import pytest

from tests.cli import done, tasc


@pytest.fixture(scope="module")
def heads(chain, base):
    """An EAGLE head and two Medusa heads, trained for a moment."""
    options = ("--model", base, "--draft-head", "--limit", 24, "--max-new-tokens", 12)
    learn = ("finetune", *options, "--validation", "test")
    return (
        chain("eagle", *learn, "--epochs", 2),
        chain("medusa", *learn, "--epochs", 1, "--head", "medusa", "--heads", 2),
    )


@pytest.fixture
def bench(massive, base, tmp_path):
    options = ("--limit", 3, "--max-new-tokens", 12, "--method", "ar", "--method", "eagle")
    return ("bench", massive, "--model", base, *options, "--output", tmp_path / "bench")


def test_heads_are_trained_beside_a_report(heads):
    eagle, medusa = (json.loads((folder / "training.json").read_text()) for folder in heads)
    assert eagle["steps"] == 4
    assert medusa["trainable_parameters"] == 2 * (64 * 64 + 64)
    for folder in heads:
        assert {p.name for p in (folder / "head").iterdir()} == {"config.json", "model.safetensors"}


def test_heads_of_both_kinds_are_benched_over_all_tokens_and_frequent_ones(
    capsys, massive, base, heads, bench, tmp_path
):
    eagle, medusa = heads
    done(capsys, "analyze", massive, "--tokenizer", base, "--output", tmp_path / "counts")
    result = done(
        capsys,
        *(*bench, "--method", "fr-spec:size=64,depth=3", "--method", "medusa:size=64"),
        *("--method", "standard:size=64", "--draft", base, "--token-counts", tmp_path / "counts"),
        *("--draft-head", medusa, "--draft-head", eagle),
    )
    assert len(result["cells"]) == 5
    assert all(c["lossless"]["identical"] == 3 for c in result["cells"])


def test_a_bench_says_which_head_or_counts_it_lacks(capsys, base, heads, bench):
    eagle, medusa = heads
    for options, said in {
        ("--draft-head", medusa): "decode with the method medusa",
        (): "tasc finetune --draft-head",
        ("--draft-head", eagle, "--method", "fr-spec:size=64", "--token-counts", base): (
            "no token counts; write them with tasc analyze --tokenizer"
        ),
    }.items():
        code, _, err = tasc(capsys, *bench, *options)
        assert code == 2
        assert said in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--draft-head", "--merge"), "leave out augmented, merge"),
        (("--head", "medusa"), "head=medusa is a kind of draft head: add draft_head"),
        (("--draft-head", "--heads", 2), "heads: only Medusa has several, add head=medusa"),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys, massive, tmp_path, options, said):
    code, _, err = tasc(
        capsys, "finetune", massive, "--model", "any", *options, "--output", tmp_path / "out"
    )
    assert code == 2
    assert said in err
