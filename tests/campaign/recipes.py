"""Kill every recipe that comes along at random moments: it ends as one that was left alone.

    python -m tests.campaign.recipes --data-dir DATA [--kills 10] [--json FILE]

Recipes run in small: their own steps and references, with models of 0.13 M parameters, few samples,
checkpoints every few steps, and epochs in place of minutes, as two runs by the clock differ anyway.
What comes from the Hub is replaced by a local model and local data.
"""

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.figures import publish, script
from tests.campaign.commands import contents, differing
from tests.campaign.process import Ended, Faults, preload, prepare, start, wait
from tests.campaign.verdict import half_written
from tests.pico import make_base

RECIPES = Path(__file__).parents[2] / "recipes"
LIMIT_S = 900.0
SMALL: dict[str, dict[str, Any]] = {
    "base": {"preset": "pico", "epochs": 1, "batch_blocks": 2, "checkpoint_steps": 2},
    "finetune": {"epochs": 1, "batch_size": 4, "effective_batch": 4, "checkpoint_steps": 2},
    "bench": {"max_new_tokens": 8, "repeats": 1, "warmup": 0, "limit": 8},
    "analyze": {"new_tokens": [0, 5]},
    "augment": {"new_tokens": 5},
}


def main() -> int:
    parser = script(__doc__, data=True, kills=10, limit=24, seed=0)
    shipped = sorted(path.stem for path in RECIPES.glob("*.yaml"))
    parser.add_argument("--recipes", nargs="*", default=shipped)
    given = parser.parse_args()
    given.data_dir = given.data_dir.resolve()  # a run has a working directory of its own
    preload()
    found = {}
    home = Path(tempfile.mkdtemp(prefix="recipes-"))  # forks would end a TemporaryDirectory's
    try:
        base = make_base(home / "model")
        for name in given.recipes:
            recipe = home / f"{name}.yaml"
            text = yaml.safe_dump(small(name, base, given.data_dir), sort_keys=False)
            recipe.write_text(text, encoding="utf-8")
            found[name] = endure(recipe, home, given)
            sys.stdout.write(f"{name}: {found[name]}\n")
            sys.stdout.flush()
    finally:
        shutil.rmtree(home)
    if given.json:
        publish({"recipes": found}, given.json, quiet=True)
    return int(any(one["problems"] for one in found.values()))


def small(name: str, base: Path, data: Path) -> dict[str, Any]:
    """Return a recipe that comes along, with less of everything."""
    recipe: dict[str, Any] = yaml.safe_load((RECIPES / f"{name}.yaml").read_text(encoding="utf-8"))
    if isinstance(recipe["data"], str):
        recipe["data"] = yaml.safe_load((RECIPES / recipe["data"]).read_text(encoding="utf-8"))
    if "/" in recipe["data"]["path"]:
        recipe["data"] = {"path": str(data / recipe["data"]["path"].rpartition("/")[2])}
    for step in recipe["steps"].values():
        if step["command"] == "bench":  # adaptive drafts depend on the time
            adaptive = ("tasc-spec", "mix")
            methods = step.get("methods", ["ar", "tasc-spec"])
            step["methods"] = [f"{m}:budget=12" if m in adaptive else m for m in methods]
        for key in ("model", "tokenizer"):
            if "/" in step.get(key, ""):
                step[key] = str(base)
        step.pop("minutes", None)
        less = SMALL.get(step["command"], {})
        step.update({k: v for k, v in less.items() if not (k == "epochs" and "tokens_of" in step)})
    return recipe


def endure(recipe: Path, home: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Run a recipe undisturbed, then killed again and again, and compare what they leave."""
    rng = random.Random(f"{given.seed} {recipe.stem}")
    whole, expected = _run(recipe, home / f"{recipe.stem}-whole", given, Faults())
    if whole.code != 0:
        return {"kills": 0, "problems": [f"undisturbed: {whole.err.strip()[-400:]}"]}
    kills, rounds, problems = 0, 0, list[str]()
    while kills < given.kills and not problems:
        rounds += 1
        while True:
            left_alone = kills == given.kills
            after = None if left_alone else rng.uniform(0.05, 0.4) * whole.seconds
            faults = Faults(kill_after_s=after)
            ended, made = _run(recipe, home / f"{recipe.stem}-{rounds}", given, faults)
            if left_alone or ended.code is not None:
                break
            kills += 1
        if ended.code != 0:
            problems.append(f"exit {ended.code}: {ended.err.strip()[-400:]}")
        elif made != expected:
            problems.append(f"another result: {differing(made, expected)}")
    return {"kills": kills, "rounds": rounds, "seconds": whole.seconds, "problems": problems}


def _run(
    recipe: Path, sandbox: Path, given: argparse.Namespace, faults: Faults
) -> tuple[Ended, dict[str, str]]:
    """Run a recipe in a sandbox; return how it ended, and what it made if it did."""
    if not sandbox.exists():
        prepare(sandbox)
    output = sandbox / "made" / "out"
    line = ["run", str(recipe), "--data-dir", str(given.data_dir), "--limit", str(given.limit)]
    ended = wait(start([*line, "--output", str(output)], sandbox, faults), LIMIT_S)
    broken = half_written(output)
    assert not broken, f"{recipe.stem}: {broken}"
    made = contents(output) if ended.code == 0 else {}
    return ended, {name: text.replace(str(sandbox), "") for name, text in made.items()}


if __name__ == "__main__":
    sys.exit(main())
