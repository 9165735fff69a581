"""One number everywhere: the verdict, the grid, the tuning and the prediction of a bench agree."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasc.analysis.divided import divide_outputs
from tasc.analysis.outputs import Outputs
from tasc.analysis.report import Analysis, analyze
from tasc.benchmark.forecast.advise import simulations_of
from tasc.benchmark.forecast.tune import search
from tasc.benchmark.forecast.verdict import decide
from tasc.benchmark.results.search import Search, Setting
from tasc.data.corpus import Corpus, load
from tasc.data.source import Source
from tasc.data.stream import Stream, open_stream
from tasc.tokenizer.loaded import LoadedTokenizer
from tests.benchmark.tasks import Row, intents, write_task
from tests.cli import done, printed
from tests.options import AnalyzeOptions


def corpus_of(task: Path) -> Corpus:
    return load(Source(str(task)), "train")


def analysed(task: Path, tokenizer: LoadedTokenizer) -> Analysis:
    return analyze(corpus_of(task), tokenizer, AnalyzeOptions(new_tokens=(0,)))


def drafts_of(stream: Stream, tokenizer: LoadedTokenizer) -> Search:
    """Simulate the default setting on held-out outputs of a split."""
    parts = divide_outputs(stream, ["validation"], seed=0)
    known = Outputs.encode(parts.train, tokenizer, "pretoken")
    simulations = simulations_of(known, parts.held_out, tokenizer, None)
    assert simulations
    return search(simulations, Setting(), {})


def copies(count: int) -> list[Row]:
    """Outputs that stand in their prompts and nowhere else."""
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(count):
        letters = rng.integers(97, 123, size=(6, 7)).astype(np.uint8)
        text = " ".join(bytes(word).decode() for word in letters)
        rows.append({"input": f"copy: {text}", "output": text})
    return rows


def test_verdict_grid_tuning_and_bench_speak_of_one_number(capsys, tmp_path, base):
    task = write_task(tmp_path / "task", train=intents(60), validation=intents(12, seed=1))
    run = ("--tokenizer", base)
    plain = done(capsys, "analyze", task, *run, "--output", tmp_path / "plain")
    out = printed(capsys, "analyze", task, *run, "--grid", "--output", tmp_path / "grid")
    grid = json.loads((tmp_path / "grid" / "analysis.json").read_text())
    tuned = done(capsys, "tune", task, *run, "--output", tmp_path / "tuned")
    bench = done(
        capsys,
        *("bench", task, "--model", base, "--split", "validation", "--output", tmp_path / "bench"),
        *("--method", "ar", "--method", "tasc-spec:budget=12"),
    )

    def number(trial: dict[str, Any]) -> tuple[str, Any, list[float]]:
        return trial["method"], trial["tokens_per_step"], trial["tokens_per_step_interval"]

    predicted = bench["prediction"]["cells"][1]
    default = number(predicted)
    assert default[0] == "tasc-spec:budget=12"
    assert number(plain["drafting"]["default"]) == number(grid["drafting"]["default"]) == default
    assert number(tuned["default"]) == default
    assert plain["drafting"]["default"]["steps_per_output"] == predicted["steps_per_output"]
    said = f"tasc-spec:budget=12 commits {default[1]:.2f} tokens per step"
    assert said in plain["verdict"]["reasons"][1]

    trials = {number(trial)[0]: number(trial) for trial in grid["drafting"]["trials"]}
    assert {number(trial)[0]: number(trial) for trial in tuned["trials"]}.items() <= trials.items()
    best = grid["drafting"]["best"]
    steps = [trial["steps_per_output"] for trial in grid["drafting"]["trials"]]
    assert best["steps_per_output"] == min(steps) < predicted["steps_per_output"]
    said = f"{best['method']} commits {best['tokens_per_step']:.2f} tokens per step"
    assert said in grid["verdict"]["reasons"][1]
    assert f"{best['tokens_per_step']:.2f}" in out.split("best settings by steps")[1]
    assert said in " ".join(out.split())


def test_a_copying_task_is_one_for_drafts(capsys, tmp_path, base):
    task = write_task(tmp_path / "task", train=copies(120))
    options = ("analyze", task, "--tokenizer", base, "--budget", 50)
    found = done(capsys, *options, "--output", tmp_path / "a")
    assert found["verdict"]["choice"] == "TASC-spec"
    assert found["drafting"]["best"]["tokens_per_step"] > 3
    assert found["drafting"]["samples"] == 12
    assert found["drafting"]["corpus_outputs"] == 96  # a tenth is left for a test


@pytest.mark.parametrize(("rows", "seen"), [(1, "1 output,"), (2, "2 outputs,")])
@pytest.mark.parametrize("options", [(), ("--grid",)])
def test_two_samples_are_too_little_data(capsys, tmp_path, base, rows, seen, options):
    task = write_task(tmp_path / "task", train=copies(rows))
    run = ("analyze", task, "--tokenizer", base, *options)
    found = done(capsys, *run, "--output", tmp_path / "a")
    assert found["verdict"]["choice"] == "too little data"
    assert f"Too little data to decide: {seen}" in found["verdict"]["reasons"][0]
    assert "Verdict: too little data" in printed(capsys, *run, "--output", tmp_path / "b")


def test_few_outputs_hold_enough_out_to_be_judged(tmp_path, tokenizer):
    task = write_task(tmp_path / "task", train=copies(20))
    analysis = analysed(task, tokenizer)
    found = drafts_of(corpus_of(task), tokenizer)
    assert (found.best.samples, found.corpus_outputs) == (10, 10)
    assert decide(analysis.report, found.best).choice == "TASC-spec"


def test_what_is_held_out_is_not_known_to_the_drafts(tmp_path, tokenizer):
    """Outputs that never recur and do not stand in their prompts cannot be drafted."""
    rows = [row | {"input": "say"} for row in copies(300)]
    task = write_task(tmp_path / "task", train=rows)
    analysis = analysed(task, tokenizer)
    found = drafts_of(corpus_of(task), tokenizer)
    assert found.best.tokens_per_step < 1.5
    assert decide(analysis.report, found.best).choice == "neither"


def test_a_stream_is_judged_like_a_corpus_in_memory(tmp_path, tokenizer):
    task_rows = [*copies(700), *intents(900)]
    task = write_task(tmp_path / "task", train=task_rows)
    source = Source(str(task), template="{input} =\n")
    found = []
    for data in (load(source, "train"), open_stream(source, "train")):
        analysis = analyze(data, tokenizer, AnalyzeOptions(new_tokens=(0, 20)))
        drafts = drafts_of(data, tokenizer)
        held_out = divide_outputs(data, ["validation"], seed=0).held_out
        rows = [(example.prompt, example.output) for example in held_out.examples]
        assert all(prompt.endswith(" =\n") for prompt, _ in rows)
        assert len({prompt for prompt, _ in rows}) == len({row["input"] for row in task_rows}) // 10
        found.append((rows, drafts.best, decide(analysis.report, drafts.best)))
    assert found[0] == found[1]


def test_a_corpus_beyond_measure_is_drafted_from_in_part(tmp_path, tokenizer, monkeypatch):
    task = write_task(tmp_path / "task", train=intents(20) * 30)
    text = sum(len(row["output"]) for row in intents(20)) * 30
    monkeypatch.setattr("tasc.benchmark.forecast.advise.SAMPLE", text // 4)
    found = drafts_of(corpus_of(task), tokenizer)
    assert found.best.samples == 60
    assert 130 <= found.corpus_outputs <= 170


@pytest.mark.parametrize("kinds", [1, 6, 60])
def test_the_verdict_on_words_does_not_depend_on_the_order_of_samples(tmp_path, kinds):
    rows = [{"input": f"say {n}", "output": f"kind: {n % kinds}"} for n in range(60)]
    found = set()
    for number, key in enumerate((None, lambda row: row["output"], lambda row: row["input"][::-1])):
        task = write_task(tmp_path / str(number), train=sorted(rows, key=key) if key else rows)
        report = analyze(load(Source(str(task)), "train"), None, AnalyzeOptions()).report
        found.add(decide(report))
    (verdict,) = found
    assert (verdict.choice == "TASC-ft") == ("vary little" in verdict.reasons[0])
    assert verdict.choice == "TASC-ft" or kinds == 60
