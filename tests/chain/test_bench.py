"""Benches, indexes and tuning through the command line."""

import pytest

from tasc.decoding.drafters import parse
from tests.chain.conftest import ROWS
from tests.cli import done, printed, refused
from tests.letters import OUTPUTS, TEMPLATE, make_writer


def test_bench_measures_every_cell_and_every_method_is_lossless(
    capsys, massive, plain, tasc_ft, tmp_path
):
    result = done(
        capsys,
        *("bench", massive, "--model", f"baseline={plain}", "--model", tasc_ft),
        *("--method", "ar", "--method", "tasc-spec", "--method", "tasc-spec:width=1,budget=6"),
        *("--metric", "exact_match", "--metric", "micro_f1", "--delimiter", ","),
        *("--limit", 12, "--max-new-tokens", 24, "--output", tmp_path / "bench"),
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
    assert [r["model"] for r in result["reference"]] == ["baseline", "ft"]
    assert all(r["identical"] == r["of"] > 0 for r in result["reference"])
    chain = result["cells"][2]
    assert chain["accepted_by_position"] == sorted(chain["accepted_by_position"], reverse=True)
    page = (tmp_path / "bench" / "report.html").read_text()
    assert page.count("<svg") == 1
    assert page.count('class="bar"') == 2 * 6
    assert "<script" not in page


def test_a_batched_bench_gives_the_outputs_of_single_sequences(capsys, letters, writer, tmp_path):
    # What is drafted from past outputs depends on who ended first.
    methods = ("--method", "ar", "--method", "tasc-spec:adapt=false,budget=12")
    options = ("bench", letters, "--model", writer, *TEMPLATE, "--max-new-tokens", 24, *methods)
    alone = done(capsys, *options, "--output", tmp_path / "bench-alone")
    batched, pairs = (
        done(capsys, *options, "--batch-size", size, "--output", tmp_path / f"bench-{size}")
        for size in (5, 2)
    )
    assert (alone["settings"]["batch_size"], batched["settings"]["batch_size"]) == (1, 5)
    for one, other in zip(alone["cells"], batched["cells"], strict=True):
        assert [output["text"] for output in one["outputs"]] == [*OUTPUTS.values()] * 4
        assert one["quality"]["exact_match"] == 0.75
        for count in ("tokens", "quality", "lossless"):
            assert one[count] == other[count], count
    steps = [[cell["decoding_steps"] for cell in r["cells"]] for r in (alone, batched)]
    assert steps[0][0] == steps[1][0] == 12 * 9
    assert steps[0][1] <= steps[1][1] <= 12 * 3  # alone, the prompt's forward verifies a draft
    for one, other in zip(pairs["cells"], batched["cells"], strict=True):
        for count in ("tokens", "decoding_steps", "drafted", "accepted", "quality", "lossless"):
            assert one[count] == other[count], count
    assert batched["cells"][1]["accepted"] > 0
    assert alone["reference"] == batched["reference"]
    assert batched["reference"][0]["match_rate"] == 1
    page = (tmp_path / "bench-5" / "report.html").read_text()
    assert "batch 5" in page
    assert "share of the batch's time" in page


def test_sampled_outputs_depend_on_the_seed_alone(capsys, letters, unsure_writer, tmp_path):
    # Drafts that depend on other outputs differ from batch to batch.
    methods = [
        f"--method={name}"
        for name in ("ar", "tasc-spec:adapt=false,budget=12", "tasc-spec:budget=12")
    ]
    options = ("bench", letters, "--model", unsure_writer, *TEMPLATE, "--max-new-tokens", 12)
    sampled = (*methods, "--temperature", 0.9, "--top-k", 20, "--top-p", 0.98, "--seed", 5)
    first = done(capsys, *options, *sampled, "--output", tmp_path / "sampled")
    again = done(capsys, *options, *sampled, "--output", tmp_path / "sampled-again")
    four, five = (
        done(capsys, *options, *sampled, "--batch-size", size, "--output", tmp_path / f"of-{size}")
        for size in (4, 5)
    )
    greedy = done(capsys, *options, *methods, "--output", tmp_path / "greedy")
    expected = {"temperature": 0.9, "top_k": 20, "top_p": 0.98, "seed": 5, "verify": "sampled"}
    assert first["settings"]["sampling"] == expected
    for name in ("tokens", "quality"):
        cells = [[cell[name] for cell in r["cells"]] for r in (first, again, four, five)]
        assert cells[0] == cells[1] == cells[2] == cells[3], name
    assert [c["accepted"] for c in first["cells"]] == [c["accepted"] for c in again["cells"]]
    for one, other in zip(four["cells"][:2], five["cells"][:2], strict=True):
        assert one["accepted"] == other["accepted"]
    for cell in first["cells"]:
        assert cell["lossless"]["identical"] == cell["lossless"]["of"] == 12
    written = [[o["text"] for o in r["cells"][0]["outputs"]] for r in (first, greedy)]
    right = [*OUTPUTS.values()] * 4
    assert written[1] == right
    some = sum(sampled != text for sampled, text in zip(written[0], right, strict=True))
    assert 0 < some < 12, "sampling changes some outputs, and leaves drafts that fit"
    assert four["cells"][1]["accepted"] > 0
    speed = first["cells"][1]["tokens_per_second"] / first["cells"][0]["tokens_per_second"]
    assert first["comparisons"][0]["speedup"] == pytest.approx(speed)
    page = (tmp_path / "sampled" / "report.html").read_text()
    assert "at temperature 0.9 with the same random numbers for every method" in page
    out = printed(capsys, *options, *sampled, "--force", "--output", tmp_path / "sampled")
    assert out.count("12/12") == 2  # the first method has no other to be equal to
    for option in (("--top-k", 5), ("--verify", "multi-branch")):
        error = refused(capsys, *options, *option, "--output", tmp_path / "sampled-x")
        assert "sampling: set temperature" in error


def test_a_sampled_bench_verifies_as_it_is_asked(capsys, letters, tmp_path):
    # The draft model is the target, and reads the text, which is tokenized as it was written. An
    # end token that is drafted would not count as accepted.
    model = make_writer(tmp_path / "endless", sure=5.0, ends=False)
    command = ("bench", letters, "--model", model, *TEMPLATE, "--method", "standard")
    options = (*command, "--draft", model, "--max-new-tokens", 12)
    accepted = {}
    for verify in ("sampled", "rejection"):
        output = tmp_path / f"verify-{verify}"
        result = done(
            capsys, *options, "--temperature", 0.9, "--verify", verify, "--output", output
        )
        assert result["settings"]["sampling"]["verify"] == verify
        page = (output / "report.html").read_text()
        assert f"verifier {verify}" in page
        assert (result["cells"][0]["lossless"] is None) == (verify == "rejection")
        assert ("they differ by chance" in page) == (verify == "rejection")
        cell = result["cells"][0]
        accepted[verify] = cell["accepted"], cell["drafted"]
    assert 0 < accepted["rejection"][0] == accepted["rejection"][1], "p = q: nothing is rejected"
    assert 0 < accepted["sampled"][0] < accepted["sampled"][1]


def test_a_bench_with_an_adaptive_budget_is_lossless_alone_and_batched(
    capsys, letters, monkeypatch, tmp_path, writer
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = ("bench", letters, "--model", writer, *TEMPLATE, "--limit", 6, "--method", "ar")
    adaptive = ("--method", "tasc-spec:budget=auto")
    for size in (1, 2):
        output = ("--batch-size", size, "--output", tmp_path / f"bench-auto-{size}")
        result = done(capsys, *options, *adaptive, *output)
        assert result["cells"][1]["lossless"]["identical"] == 6
    # A proof lies there, too, if no earlier test of this process has proved the model.
    assert len(list((tmp_path / "tasc").glob("cost-*"))) == 1


def test_a_saved_index_stands_for_the_corpus_in_a_bench(capsys, letters, writer, tmp_path):
    index = ("index", letters, "--tokenizer", writer)
    made = done(capsys, *index, "--output", tmp_path / "index")
    assert made["outputs"] == 24
    command = ("bench", letters, "--model", writer, "--index", f"mine={tmp_path / 'index'}")
    result = done(
        capsys,
        *(*command, "--method", "ar", "--method", "corpus", "--limit", 6, "--max-new-tokens", 24),
        *(*TEMPLATE, "--batch-size", 6, "--output", tmp_path / "bench-index"),
    )
    plain, drafting = result["cells"]
    assert drafting["drafted"] >= drafting["accepted"] > 0
    assert drafting["decoding_steps"] < plain["decoding_steps"] == 6 * 9
    assert drafting["lossless"]["identical"] == 6
    path = tmp_path / "index" / "index.tasc"
    path.write_bytes(path.read_bytes()[:-3])
    broken = ("--limit", 2, "--output", tmp_path / "bench-broken")
    assert "index.tasc" in refused(capsys, *command, *broken)
    assert not (tmp_path / "bench-broken").exists()


def test_an_index_of_real_outputs_is_small(capsys, massive, plain, tmp_path):
    index = ("index", massive, "--tokenizer", plain / "model")
    made = done(capsys, *index, "--output", tmp_path / "index")
    assert made["outputs"] == ROWS
    assert 0 < made["bytes_per_token"] <= 16


def test_tuning_needs_no_model_and_never_chooses_worse_than_the_default(
    capsys, massive, plain, tmp_path
):
    tune = ("tune", massive, "--tokenizer", plain / "model", "--limit", 20)
    result = done(capsys, *tune, "--output", tmp_path / "tuned")
    best = result["best"]
    assert best["steps_per_output"] <= result["default"]["steps_per_output"]
    assert min(best["tokens_per_step"], result["default"]["tokens_per_step"]) > 1
    assert result["split"] == "validation"
    assert parse(best["method"]).budget == 12
    assert best["steps_per_output"] == min(t["steps_per_output"] for t in result["trials"])
