"""The grid of replays: its arithmetic, and the command that shows it."""

import json

import numpy as np
import pytest

from tasc.bench.foretell import GRID, foretell
from tasc.bench.predict import predict
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.data.tokenizer import load_tokenizer
from tasc.models.cost import CostCurve
from tasc.spec.drafters import Resources, parse
from tests.cli import tasc
from tests.pico import make_base

COST = CostCurve((1, 4, 16), (10.0, 12.0, 40.0))  # seconds, so that drafting costs nothing


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """A folder with two splits whose outputs repeat one another in part."""
    folder, rng = tmp_path_factory.mktemp("task"), np.random.default_rng(5)
    words = ["alarm_set", "play_music", "weather_query", "time: nine", "genre: jazz", "date: today"]
    for split, count in (("train", 120), ("validation", 30)):
        rows = [
            {"input": f"say {i}", "output": "intent: " + ", ".join(rng.choice(words, 4))}
            for i in range(count)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def sides(task):
    source = Source(str(task), "input", "output")
    return load(source, "train"), load(source, "validation")


def test_a_row_is_what_its_method_replayed_by_itself_comes_to(sides, model):
    corpus, held_out = sides
    tokenizer = load_tokenizer(str(model))
    seen = []
    found = foretell(
        corpus,
        held_out,
        tokenizer,
        COST,
        progress=lambda _, done, total: seen.append((done, total)),
    )
    assert len(found["rows"]) == 1 + sum(len(values) - 1 for values in GRID.values()) == seen[-1][1]
    assert len(seen) == len(found["rows"])
    assert found["best"] in found["rows"]
    assert found["best"]["speedup"] == max(row["speedup"] for row in found["rows"])

    def tokens(texts):
        return [tokenizer.encode([text]).tokens for text in texts]

    end = tokenizer.eos_id
    known, prompts, outputs = map(tokens, (corpus.outputs, held_out.prompts, held_out.outputs))
    plain = predict(parse("ar").prepare(Resources([], end)), prompts, outputs, end, 0, COST)
    assert found["plain"]["steps_per_output"] == plain.tokens_per_output
    for row in (found["rows"][0], found["best"]):
        method = parse(row["method"])
        factory = method.prepare(Resources(known, end))
        alone = predict(factory, prompts, outputs, end, method.budget, COST)
        assert row["acceptance_length"] == alone.acceptance_length > 1
        assert row["steps_per_output"] == alone.steps_per_output
        assert row["speedup"] == pytest.approx(plain.ms_per_sample / alone.ms_per_sample, rel=1e-3)


def test_without_costs_the_fewest_steps_are_best_and_some_outputs_are_held_out(sides, model):
    grid = {"n_max": (3, 6), "budget": (2, 12)}
    found = foretell(sides[0], None, load_tokenizer(str(model)), None, grid)
    assert (found["samples"], found["corpus_outputs"]) == (12, 108)
    assert len(found["rows"]) == 3
    assert all(row["speedup"] is None for row in found["rows"])
    assert found["best"]["steps_per_output"] == min(r["steps_per_output"] for r in found["rows"])


def test_analyze_times_the_model_and_names_the_best_setting(
    capsys, task, model, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, out, err = tasc(
        capsys, *("analyze", task, "--model", model, "--budget", 20, "--output", tmp_path / "a")
    )
    assert code == 0, err
    assert "speed-up" in out
    assert "the bonus token included" in out
    assert list((tmp_path / "cache" / "tasc").glob("cost-*.json"))
    drafting = json.loads((tmp_path / "a" / "analysis.json").read_text())["drafting"]
    assert drafting["cost"]["sizes"][0] == 1
    method = drafting["best"]["method"]
    assert method in out
    assert parse(method).budget == drafting["best"]["budget"]
    page = (tmp_path / "a" / "analysis.html").read_text()
    assert method in page
    assert "knee: " in page
    assert "Knee of the budgets up to 20" in out
    assert "What a forward costs here" in page


def test_the_grid_needs_tokens(capsys, task, tmp_path):
    code, _, err = tasc(capsys, "analyze", task, "--grid", "--output", tmp_path / "a")
    assert code == 2
    assert "give a tokenizer or a model" in err
