"""The search over settings: its arithmetic, and the command that shows it."""

import json
from dataclasses import asdict

import pytest

from tasc.benchmark.forecast.tune import GRID, Simulations, coordinate_search, search
from tasc.benchmark.results.prediction import StepFigures
from tasc.benchmark.results.search import Setting
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.simulate import References, simulate
from tasc.models.cost_model import CostModel
from tests.benchmark.tasks import intents, write_task
from tests.cli import printed, refused

COST = CostModel((1, 4, 16), (10.0, 12.0, 40.0))  # seconds, so that drafting costs nothing


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """A folder with two splits whose outputs repeat one another in part."""
    splits = {"train": intents(120, seed=5), "validation": intents(30, seed=6)}
    return write_task(tmp_path_factory.mktemp("task"), **splits)


@pytest.fixture(scope="module")
def sides(task, tokenizer):
    """The tokens of the corpus, and the outputs to simulate."""
    corpus, held_out = (load(Source(str(task)), split) for split in ("train", "validation"))
    known = tokenizer.encode(corpus.outputs).split()
    return known, References.of(tokenizer, held_out.prompts, held_out.outputs)


def test_a_trial_is_what_its_method_simulated_by_itself_comes_to(sides, tokenizer):
    known, references = sides
    seen = []
    found = search(
        Simulations(known, references, COST),
        Setting(),
        GRID,
        progress=lambda _, done, total: seen.append((done, total)),
    )
    expected = 1 + sum(len(values) - 1 for values in GRID.values())
    assert len(found.trials) == len(seen) == seen[-1][1] == expected
    assert found.best in found.trials
    assert found.best.speedup == max(trial.speedup for trial in found.trials)
    assert found.default.setting.method == "tasc-spec:budget=12"

    resources = Resources(known, tokenizer.eos_id)
    columns = enumerate(zip(*(prompt.tolist() for prompt in references.prompts), strict=False))
    shared = next(i for i, column in columns if len(set(column)) > 1)
    prompts = [prompt[shared:] for prompt in references.prompts]
    assert shared >= 4, "all prompts begin alike, and these tokens are read once"
    plain = simulate(parse("ar").prepare(resources), references, 0).ms_per_sample(prompts, COST)
    for trial in (found.default, found.best, found.trials[9]):
        method = parse(trial.setting.method)
        alone = simulate(method.prepare(resources), references, method.budget)
        assert StepFigures(**alone.to_dict(), ms_per_sample=None, speedup=None) == figures(trial)
        assert trial.tokens_per_step > 1
        ms = alone.ms_per_sample(prompts, COST)
        assert trial.speedup == pytest.approx(plain / ms, rel=1e-3)


def test_the_default_is_simulated_as_it_runs(sides):
    known, references = sides
    flat, steep = (CostModel((1, 2, 64), times) for times in ((10, 10, 10.1), (10, 30, 1900)))
    nodes = []
    for cost in (flat, steep):
        simulations = Simulations(known, references, cost)
        found = search(simulations, Setting(tree_size=0), {"tree_size": (12,)})
        assert found.default.method == "tasc-spec:budget=auto"
        nodes.append(found.default.drafted_tokens)
        fixed = found.trials[1]
        assert found.default.speedup > 0.98 * max(fixed.speedup, 1)
    assert nodes[0] > fixed.drafted_tokens > nodes[1]


def figures(trial):
    own = {name: getattr(trial, name) for name in StepFigures.model_fields}
    return StepFigures(**own | {"ms_per_sample": None, "speedup": None})


def test_without_costs_the_fewest_steps_are_best(sides):
    known, references = sides
    grid = {"n_max": (3, 6), "tree_size": (2, 12)}
    found = search(Simulations(known, references), Setting(), grid)
    assert len(found.trials) == 3
    assert all(trial.speedup is None for trial in found.trials)
    reached = [trial.steps_per_output for trial in found.trials]
    assert found.best.steps_per_output == min(reached)


def test_the_default_stays_where_nothing_is_better():
    start = Setting()
    assert coordinate_search(start, GRID, lambda settings: [1.0] * len(settings)) is start
    nearest = coordinate_search(start, GRID, lambda settings: [-abs(s.n_max - 4) for s in settings])
    assert nearest.method == "tasc-spec:n_max=4,budget=12"


def test_a_setting_is_spelled_as_a_bench_reads_it():
    setting = Setting(lambda_=0.3, width=2, strength=0.0, tree_size=32)
    assert setting.method == "tasc-spec:strength=0,lambda=0.3,width=2,budget=32"
    method = parse(setting.method)
    assert method.budget == 32
    options = asdict(setting)
    assert options.pop("tree_size") == 32
    assert asdict(method.options) == options


def test_analyze_times_the_model_and_names_the_best_setting(
    capsys, task, base, tmp_path, own_cache
):
    given = ("--model", base, "--budget", 20, "--output", tmp_path / "a")
    out = printed(capsys, "analyze", task, *given)
    assert "speed-up" in out
    assert "the prefill and the end token" in out
    assert list(own_cache.glob("cost-*.json"))
    drafting = json.loads((tmp_path / "a" / "analysis.json").read_text())["drafting"]
    assert drafting["cost"]["sizes"][0] == 1
    method = drafting["best"]["method"]
    assert method in out
    parsed = parse(method)
    assert (0 if parsed.adaptive else parsed.budget) == drafting["best"]["setting"]["tree_size"]
    assert drafting["best"]["speedup"] == max(t["speedup"] for t in drafting["trials"])
    page = (tmp_path / "a" / "analysis.html").read_text()
    assert method in page
    assert "recommended: " in page
    assert "Recommended size: " in out
    assert "Cost of a forward on this machine" in page


def test_the_grid_needs_tokens(capsys, task, tmp_path):
    error = refused(capsys, "analyze", task, "--grid", "--output", tmp_path / "a")
    assert "give a tokenizer or a model" in error


def test_a_setting_that_drafts_whole_outputs_in_the_prefill_is_the_best(tokenizer):
    texts = ["yes", "no"] * 20
    references = References.of(tokenizer, [f"q {i}" for i in range(40)], texts)
    known = tokenizer.encode(texts).split()
    found = search(Simulations(known, references), Setting(), {"width": (0, 1)})
    assert found.best.steps_per_output == min(t.steps_per_output for t in found.trials)
