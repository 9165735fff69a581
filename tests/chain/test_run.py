"""Recipes, built-in tasks and the small commands through the command line."""

from pathlib import Path

from tests.cli import done, printed, tasc

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


def steps(err):
    """Yield what became of each step, without the warnings between them."""
    for line in err.splitlines():
        if line.partition(":")[0] in {"base", "tokens", "tasc-ft", "bench"}:
            yield line.partition(" (")[0]


def test_run_does_each_step_once_and_again_only_what_changed(capsys, tmp_path, massive):
    recipe = tmp_path / "small.yaml"
    recipe.write_text(RECIPE)
    command = ("run", recipe, "--data-dir", massive.parent, "--output", tmp_path / "out")
    code, out, err = tasc(capsys, *command)
    assert code == 0, err
    assert [*steps(err)] == [f"{step}: done" for step in ("base", "tokens", "tasc-ft", "bench")]
    assert any(line.split()[:2] == ["tasc-ft", "tasc-spec"] for line in out.splitlines())
    assert out.count("Identical to generate in transformers: ") == 2
    code, _, err = tasc(capsys, *command)
    assert err.count("up to date") == 4
    recipe.write_text(RECIPE.replace("budget: 20", "budget: 25"))
    code, _, err = tasc(capsys, *command)
    assert code == 0
    assert [*steps(err)] == ["base: up to date", "tokens: done", "tasc-ft: done", "bench: done"]


def test_recipes_that_come_along_are_all_readable(tmp_path, monkeypatch, data_dir):
    from tasc.commands.plan import RunOptions, read
    from tasc.commands.steps import directory, find, names
    from tasc.options.references import parse_label

    monkeypatch.delenv("TASC_DATA", raising=False)
    recipes = [*map(find, names()), *directory().glob("results/*.yaml")]
    assert len(recipes) >= 5
    for path in recipes:
        plan = read(path, RunOptions(data_dir=data_dir if path.stem == "general-prompts" else None))
        assert plan.steps, path
        known = {"smollm2"}  # which a package has
        for name, step in plan.steps.items():
            for field in step.spec.references:
                value = getattr(step, field)
                for text in value if isinstance(value, tuple) else (value,):
                    made = text and parse_label(text)[1]
                    assert made is None or made in known or "/" in made, f"{path}: {name}: {text}"
            known.add(name)
        assert Path(path).read_text().startswith("# "), f"{path} does not say what it is for"


def test_every_builtin_task_can_be_analyzed(capsys, tmp_path):
    low, high = (
        done(capsys, "analyze", f"builtin:{name}", "--limit", 500, "--output", tmp_path / name)
        for name in ("stdlib-tokens", "stdlib-docs")
    )
    assert low["samples"] == high["samples"] == 500
    assert low["output"]["ngrams"][1]["entropy_bits"] < high["output"]["ngrams"][1]["entropy_bits"]


def test_doctor_and_version(capsys):
    report = done(capsys, "doctor")
    assert report["kernels"]["native"] == "built"
    assert "quickstart" in report["recipes"]
    assert printed(capsys, "--version").startswith("tasc ")
